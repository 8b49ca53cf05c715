#!/bin/sh
# Starts workerd for scripts/workers.ts, which sets both variables. Writes the process id, so that the reaper can end
# it. Ignores Ctrl-C, which reaches the whole process group: the process that started it stops workerd in order.
trap '' INT HUP
echo $$ > "$WORKERD_PID_FILE"
exec "$WORKERD_BINARY" "$@"
