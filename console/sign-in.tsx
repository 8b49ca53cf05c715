/** Signing in, with an operator's token or a virtual key. Neither is kept by the page. */

import { signIn } from "./kit/api.ts";
import { Form } from "./kit/dialog.tsx";

export function SignIn({ ended }: { ended: string | null }) {
  return (
    <main class="sign-in">
      <h1>Tollgate</h1>
      {ended && <p role="status">{ended}</p>}
      <Form
        fields={[
          {
            name: "key",
            label: "Operator's token or virtual key",
            type: "password",
            required: true,
            hint: "It begins with tg-op- or sk-tg-, or it is the deployment's ADMIN_TOKEN.",
          },
        ]}
        submit="Sign in"
        onSubmit={({ key = "" }) => signIn(key)}
      />
      <p class="quiet">No key yet? Ask who runs this gateway. After npm start, the terminal shows both.</p>
    </main>
  );
}
