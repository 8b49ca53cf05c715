/**
 * The one thing beyond the language that the core uses: UTF-8. Declared here because the core is compiled without the
 * types of any platform; every runtime has it.
 */
declare class TextEncoder {
  encode(text?: string): Uint8Array<ArrayBuffer>;
}
declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  decode(bytes?: Uint8Array, options?: { stream?: boolean }): string;
}
