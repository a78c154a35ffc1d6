// Checks a record's proof in the browser: its hash, the way from there to the signed root, the signature over that root, and
// that the record on the page is the one that was proven. It asks nobody. The form is that of docs/audit-format.md.
(() => {
  "use strict";
  const button = document.getElementById("check-proof");
  const said = document.getElementById("check-said");
  if (!button || !said || !window.crypto || !crypto.subtle) return;

  const text = (id) => document.getElementById(id).textContent;
  const utf8 = (value) => new TextEncoder().encode(value);
  const bytes = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const joined = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));
  const sha256 = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", joined(...parts)));
  const same = (one, other) => one.length === other.length && one.every((byte, at) => byte === other[at]);
  const big = (number, size) => Uint8Array.from({ length: size }, (_, at) => Math.floor(number / 256 ** (size - 1 - at)) % 256);
  const framed = (part) => joined(big(part.length, 4), part);

  function parsed(proof) {
    const at = proof.indexOf("\n\n");
    const [magic, extra, index, ...path] = proof.slice(0, at).split("\n");
    const note = proof.slice(at + 2);
    const end = note.indexOf("\n\n");
    const body = note.slice(0, end + 1);
    const [origin, size, root] = body.split("\n");
    const [, name, signature] = note.slice(end + 2).split("\n")[0].split(" ");
    if (magic !== "c2sp.org/tlog-proof@v1") throw new Error("it is not a proof");
    return {
      event: bytes(extra.split(" ")[1]), index: Number(index.split(" ")[1]), path: path.filter(Boolean).map(bytes),
      origin, size: Number(size), root: bytes(root), signed: utf8(body), name, signature: bytes(signature),
    };
  }

  // RFC 9162, section 2.1.3.2.
  async function rootOf(leaf, index, size, path) {
    let [node, first, last] = [leaf, index, size - 1];
    for (const step of path) {
      if (last === 0) return null;
      if (first % 2 === 1 || first === last) {
        node = await sha256([1], step, node);
        while (first % 2 === 0 && first !== 0) [first, last] = [Math.floor(first / 2), Math.floor(last / 2)];
      } else {
        node = await sha256([1], node, step);
      }
      [first, last] = [Math.floor(first / 2), Math.floor(last / 2)];
    }
    return last === 0 ? node : null;
  }

  async function signedBy(line, proof) {
    // A name and a key ID hold no plus, base64 may.
    const [name, id, ...rest] = line.split("+");
    const whole = bytes(rest.join("+"));
    const made = (await sha256(utf8(name), [10], whole)).slice(0, 4);
    const hex = [...made].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    if (name !== proof.name || hex !== id || !same(made, proof.signature.slice(0, 4))) return false;
    const imported = await crypto.subtle.importKey("raw", whole.slice(1), { name: "Ed25519" }, false, ["verify"]);
    return crypto.subtle.verify({ name: "Ed25519" }, imported, proof.signature.slice(4), proof.signed);
  }

  async function* checks() {
    const proof = parsed(text("proof-text"));
    const tenant = proof.name.slice(proof.name.lastIndexOf("/") + 1);
    const leaf = await sha256([0], framed(utf8(tenant)), framed(big(proof.index + 1, 8)), framed(proof.event));
    const root = await rootOf(leaf, proof.index, proof.size, proof.path);
    const shown = JSON.stringify(JSON.parse(text("record-text")));
    const proven = JSON.stringify(JSON.parse(new TextDecoder().decode(proof.event)));
    yield [shown === proven, "the record on this page is the one in the proof"];
    yield [root !== null && same(root, proof.root), `its hash leads, in ${proof.path.length} steps, to the root of checkpoint ${proof.size.toLocaleString("en")}`];
    let signed = false;
    for (const line of text("key-text").trim().split("\n")) signed = signed || (await signedBy(line, proof));
    yield [signed, "that root is signed with the log’s key"];
  }

  const say = (holds, what) => {
    const line = document.createElement("li");
    line.className = holds ? "holds" : "fails";
    line.textContent = (holds ? "✓ " : "✗ ") + what;
    said.append(line);
  };

  button.hidden = false;
  button.addEventListener("click", async () => {
    said.replaceChildren();
    try {
      for await (const [holds, what] of checks()) say(holds, what);
    } catch (error) {
      say(false, error.name === "NotSupportedError" ? "this browser cannot check the signature" : "the proof cannot be read");
    }
  });
})();
