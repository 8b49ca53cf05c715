/** Keys as `ssh-keygen` made them: type, line, fingerprint. Their private halves are kept nowhere. */
export const MADE_KEYS: readonly (readonly [string, string, string])[] = [
  [
    "ed25519",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKC6a+XlVN6Xi9o+muS0uUv+1L3RZL5dsSbG9L38/LFP a b",
    "SHA256:O7yO7I5QfoLEENJeQMc4+8SfCgmPjimqlOfsx2Pm800",
  ],
  [
    "RSA",
    [
      "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC0seXZHG/icwE/Wa2Z/45MiCCWia5VA2RXGaDn7n10sjxpwEbvl4NxqdaDpMWv",
      "FvXK4bcf4VIf4OC1AQwPwCDpEAEQb1U5Cicfb708iYblK+ihbkRcGEdKlhPgJH3mSBne6A92XOkNEp/p9QuIOZ8XY+vz5vag96mk",
      "Eb2rXx0DuGGTbn+5LIjnNamblOgAz3iQ8Sm90qvucAmlKXyQyA1nxIp0sYiACkCXZY+Ano022dEhdts89WgpO6RzP7+3FfF9x9GU",
      "Tl0J4UgRwYekkQ33cpssbKtQSUWO+p1q5LuoDOAjrotEQNxCVwK4MGiJWtnNSvN26i5LSN5vwImKxonj a b",
    ].join(""),
    "SHA256:Tq2+WExmgHp4yzlks/8ibVrnrK5BEBDbsBmp2UqDlBQ",
  ],
  [
    "nistp256",
    [
      "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBMItTM9TfLOlceGE29SkNUiAijRV",
      "abN9BOsSTkM5K3udAXgyhjqGdkfgRuVoWY+Tqrt8e3BZh7blrmuJqFTz1lk= a b",
    ].join(""),
    "SHA256:oGOAT5XxE4a1d7Its/TbXH8jTUh4xGtX9sIX5DtjDPM",
  ],
  [
    "nistp384",
    [
      "ecdsa-sha2-nistp384 AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBJPeYuAbRsPYMahaoIfftKmAlPNB",
      "LjuO25UPZWeHF7JZ7LodJlvUb1X6r3iwmi8/PA+NUXPgaV8nTF1pLpYIQ9+m14Ddzen4hHd53wlbEsqABKgqr6ABYg7r0hD/IKm0",
      "ew== a b",
    ].join(""),
    "SHA256:7asPQT8voS7sPjV8ZDQBOKKdD8jRQBxJHlG9WSSA/dw",
  ],
  [
    "nistp521",
    [
      "ecdsa-sha2-nistp521 AAAAE2VjZHNhLXNoYTItbmlzdHA1MjEAAAAIbmlzdHA1MjEAAACFBAFZQXaqndo3OMKsZHDKmZckovv7",
      "wdPM/PqubUOMQYpAxe+Kpem8vtqn6ecEnbcnVqUWcEHVeBoSmW80qQJdPMksfAAcXwRc+zvmQTogfRWckOyjwEjpKu2rvmLSSACs",
      "ClhDCwB50xBaFdYydi5tPvT0JimF7EtuYVmet3oB7a9qODG5tQ== a b",
    ].join(""),
    "SHA256:G+AZkSQ3k7Y2ImDE+ct3JrXplgKcQtbs9Ln7SmY0LNw",
  ],
];

export const ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKC6a+XlVN6Xi9o+muS0uUv+1L3RZL5dsSbG9L38/LFP a b";
