// Writes NAME/vectors.json: [{"text": ..., "ids": [...]}, ...] from the packages' own tokenizer.
import { TokenizerLoader } from "@lenml/tokenizers";
import fs from "node:fs";

const texts = [
  "Hello world", " Hello", "  two  spaces ", "a\nb\n\nc\r\n\r\nd", "\t\ttabs\t", "123456789 1 12 3.14159",
  "I'm don't WE'LL they've 'S 'd", "caf\u00e9 na\u00efve \u4f60\u597d\uff0c\u4e16\u754c\u3002 \u3053\u3093\u306b\u3061\u306f \ud55c\uad6d\uc5b4",
  "\u043d\u0435\u0449\u043e \u043d\u0430 \u0411\u044a\u043b\u0433\u0430\u0440\u0441\u043a\u0438", "\u1780\u17b6\u1793\u17cb\u178f\u17c2\u1796\u17b7\u179f\u17c1\u179f", "\ud83d\ude80 (normal) \ud83d\ude36\u200d\ud83c\udf2b\ufe0f \u2705",
  "def f(x):\n    return x ** 2  # square\n", "{\"a\": [1, 2.5e-3, null], \"b\": {\"c\": \"\\u00e9\"}}", "!!!???...;;;---___///\\\\",
  "x=1;y=x+2*(z-3)/4%5^6&7|8~9", "   \n   \n  indented", "\u00a0nbsp\u2003em\u3000ideographic", "MixedCASEWords HTTPServer iPhone",
  "\u00bd \u00b2 \u2160 \u0663\u0664\u0665 \uff11\uff12", "e\u0301 \u0041\u030a \u1e0b\u0323", "price: $1,234.56 (20% off!)", "a".repeat(200), " ".repeat(40) + "x",
  "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22", "https://example.com/a?b=c&d=%20#frag", "\u01c5 \u02b0 \u2c7c x\u0307",
];
// A fixed generator: words from many blocks, white space of all kinds, digits, marks.
let state = 12345;
const next = (n) => { state = (Math.imul(state, 1103515245) + 12345) >>> 0; return (state >>> 8) % n; };
const blocks = [[0x20, 0x7e], [0x20, 0x7e], [0xa1, 0x17f], [0x370, 0x3ff], [0x410, 0x44f], [0x4e00, 0x4eff], [0x1f300, 0x1f5ff], [0x300, 0x320], [0x30, 0x39], [0x2000, 0x206f]];
const spaces = [" ", " ", "  ", "\n", "\t", "\r\n", "\u3000"];
for (let i = 0; i < 300; i++) {
  let text = "";
  for (let w = 0; w < 1 + next(12); w++) {
    const [low, high] = blocks[next(blocks.length)];
    for (let c = 0; c < 1 + next(8); c++) text += String.fromCodePoint(low + next(high - low + 1));
    if (next(4) > 0) text += spaces[next(spaces.length)];
  }
  texts.push(text);
}

for (const name of process.argv.slice(2)) {
  const read = (file) => JSON.parse(fs.readFileSync(`${name}/${file}`, "utf8"));
  const tokenizer = TokenizerLoader.fromPreTrained({
    tokenizerJSON: read("tokenizer.json"), tokenizerConfig: read("tokenizer_config.json"),
  });
  const rows = texts.map((text) => ({ text, ids: tokenizer.encode(text, { add_special_tokens: false }) }));
  fs.writeFileSync(`${name}/vectors.json`, JSON.stringify(rows));
}
