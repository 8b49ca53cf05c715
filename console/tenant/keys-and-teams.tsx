/** The account's keys and teams, for its owners and admins. */
import { Head } from "../kit/frame.tsx";
import { Keys } from "../kit/keys.tsx";
import { Teams } from "../kit/teams.tsx";

export const KeysAndTeams = () => (
  <>
    <Head title="Keys and teams" />
    <Keys root="/account" />
    <h2>Teams</h2>
    <Teams root="/account" />
  </>
);
