/** Who is told of what happens in the account. For its owners. */
import { TENANT_ALERTS } from "../../src/core/alerts/alert.ts";
import { Head } from "../kit/frame.tsx";
import { Webhooks } from "../kit/webhooks.tsx";

export function TenantWebhooks() {
  return (
    <>
      <Head title="Webhooks" />
      <Webhooks at="/account/webhooks" events={TENANT_ALERTS} />
    </>
  );
}
