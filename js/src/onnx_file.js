// The metadata of an ONNX file. ONNX Runtime's JavaScript interface does not give it, so it is read here from the
// file's protocol buffers (onnx.proto: ModelProto.metadata_props = 14, of StringStringEntryProto {key = 1, value = 2}).

const METADATA_PROPS = 14;
const VARINT = 0, FIXED64 = 1, LENGTH_DELIMITED = 2, FIXED32 = 5;

// {key: value}, both strings. Throws for bytes that are not whole protocol buffers.
export function readMetadata(bytes) {
  const text = new TextDecoder("utf-8", { fatal: true });
  const metadata = Object.create(null);
  for (const [number, entry] of fields(bytes)) {
    if (number !== METADATA_PROPS || !entry) continue;
    let key = "", value = "";
    for (const [part, content] of fields(entry)) {
      if (part === 1 && content) key = text.decode(content);
      if (part === 2 && content) value = text.decode(content);
    }
    metadata[key] = value;
  }
  return metadata;
}

// [field number, content or undefined] of each field of a message; content is given of length-delimited ones.
function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      if (at >= bytes.length || scale > 2 ** 63) throw new Error("it is cut short or damaged");
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const kind = tag % 8;
    if (kind === VARINT) {
      varint();
      yield [Math.floor(tag / 8), undefined];
      continue;
    }
    if (kind !== FIXED64 && kind !== LENGTH_DELIMITED && kind !== FIXED32) throw new Error("it is damaged");
    const size = kind === FIXED64 ? 8 : kind === FIXED32 ? 4 : varint();
    if (size > bytes.length - at) throw new Error("it is cut short");
    yield [Math.floor(tag / 8), kind === LENGTH_DELIMITED ? bytes.subarray(at, at + size) : undefined];
    at += size;
  }
}
