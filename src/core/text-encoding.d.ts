/**
 * UTF-8 is the only thing that the core uses beyond the language. It is declared here because the core is compiled
 * without any platform's types; every runtime has it.
 */
declare class TextEncoder {
  encode(text?: string): Uint8Array<ArrayBuffer>;
  encodeInto(text: string, into: Uint8Array): { readonly read: number; readonly written: number };
}
declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  decode(bytes?: Uint8Array, options?: { stream?: boolean }): string;
}
