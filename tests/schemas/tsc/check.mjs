// Reads one JSON string (a source file) a line, answers with one JSON array of its errors a line.
// Usage: node check.mjs FOLDER_OF_THE_TYPESCRIPT_PACKAGE
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const ts = createRequire(import.meta.url)(process.argv[2]);
const options = { noEmit: true, strict: true, noLib: true, types: [], target: ts.ScriptTarget.ES2020 };
// The global types that the compiler insists on; the real library takes a second to load and adds nothing here.
const lib = ts.createSourceFile("lib.d.ts", `
interface Array<T> { length: number; [n: number]: T }
interface ReadonlyArray<T> { readonly length: number; readonly [n: number]: T }
interface Boolean { valueOf(): boolean } interface Function {} interface CallableFunction {} interface NewableFunction {}
interface IArguments {} interface Number { toFixed(): string } interface Object {} interface RegExp {} interface String { length: number }
`, options.target, true);

function errors(text) {
  const source = ts.createSourceFile("check.ts", text, options.target, true);
  const files = { "check.ts": source, "lib.d.ts": lib };
  const program = ts.createProgram(Object.keys(files), options, {
    getSourceFile: (name) => files[name],
    getDefaultLibFileName: () => "lib.d.ts",
    getCurrentDirectory: () => "",
    getCanonicalFileName: (name) => name,
    useCaseSensitiveFileNames: () => true,
    getNewLine: () => "\n",
    fileExists: (name) => name in files,
    readFile: () => undefined,
    writeFile: () => {},
  });
  return ts.getPreEmitDiagnostics(program).map((d) => {
    const line = d.file ? d.file.getLineAndCharacterOfPosition(d.start).line : -1;
    return { line, code: d.code, text: ts.flattenDiagnosticMessageText(d.messageText, "\n") };
  });
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = errors(JSON.parse(line));
  } catch (error) {
    answer = [{ line: -1, code: 0, text: String(error) }];
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
