#!/bin/sh
# Starts workerd for scripts/workers.ts, which sets both variables. Notes the process id, so that it can be ended with
# whoever started it; leaves Ctrl-C, which reaches the whole process group, to that one.
trap '' INT HUP
echo $$ > "$WORKERD_PID_FILE"
exec "$WORKERD_BINARY" "$@"
