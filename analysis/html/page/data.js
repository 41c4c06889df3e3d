// The data of the report, read once and unfolded: analysis/html/page_data.cc writes it.
const data = JSON.parse(document.getElementById('data').textContent);

const PART = {stack: 0, otherStacks: 1, idleCache: 2};
const ORIGINS = ['your code', 'packages', 'CUDA libraries', 'runtime and system'];

function sums(differences) {
  const result = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < differences.length; ++i) result[i] = sum += differences[i];
  return result;
}

// A group's bytes at every instant: from its changes.
function unfold(changes, numbers, length) {
  const bytes = new Float64Array(length);
  let instant = 0, value = 0;
  for (let i = 0; i < changes.length; i += 2) {
    const until = instant + changes[i];
    if (value !== 0) bytes.fill(value, instant, until);
    instant = until;
    value = numbers[changes[i + 1]];
  }
  if (value !== 0) bytes.fill(value, instant);
  return bytes;
}

function unfoldPlace(place, index) {
  const time = sums(place.time);
  const groups = place.groups.map(([part, stack, category, changes]) => ({
    part, stack, category, line: stack === null ? null : data.stacks.line[stack],
    bytes: unfold(changes, place.numbers, time.length),
  }));
  const total = new Float64Array(time.length), used = new Float64Array(time.length);
  for (const group of groups) {
    for (let i = 0; i < time.length; ++i) {
      total[i] += group.bytes[i];
      if (group.part !== PART.idleCache) used[i] += group.bytes[i];
    }
  }
  const named = place.named.map(([name, instant]) => ({name, instant}));
  const peak = named.find((entry) => entry.name === 'peak');
  // What the recorder knows exactly, even of a peak whose events were lost.
  const told = place.tensors ? place.tensor_peak : place.peak;
  return {...place, index, time, groups, total, used, named, peak: peak ? peak.instant : 0,
          mostBytes: Math.max(told ? told[0] : 0, peak ? used[peak.instant] : 0)};
}

const places = data.places.map(unfoldPlace);
const stepBoundaries = sums(data.steps.boundaries);

// Frames of a stack as indices into data.frames, outermost first.
function framesOf(stack) {
  const frames = [];
  for (let node = data.stacks.node[stack]; node !== 0; node = data.nodes.parent[node - 1])
    frames.push(data.nodes.frame[node - 1]);
  return frames.reverse();
}

const lineText = (line) => data.strings[data.lines.text[line]];
function linePlace(line) {
  const file = data.strings[data.lines.file[line]];
  return file === '' ? '' : data.lines.line[line] === 0 ? file : `${file}:${data.lines.line[line]}`;
}
const frameFunction = (frame) => data.strings[data.frames.function[frame]];
function framePlace(frame) {
  const file = data.strings[data.frames.file[frame]];
  return file === '' ? '' : data.frames.line[frame] === 0 ? file : `${file}:${data.frames.line[frame]}`;
}

// The listed blocks as objects: tables sort and filter them.
const blocks = (() => {
  const columns = data.blocks;
  let before = 0;
  return columns.bytes.map((bytes, row) => {
    const known = columns.allocated[row] !== null;
    if (known) before += columns.allocated[row];
    const allocated = known ? before : null;
    const lifetime = columns.lifetime[row];
    const stack = columns.stack[row];
    return {
      row, bytes, stack, allocated, address: '0x' + columns.address[row].padStart(12, '0'),
      freed: lifetime === null ? null : (known ? allocated : 0) + lifetime, lifetime,
      line: data.stacks.line[stack], category: columns.category[row], kind: columns.kind_names[columns.kind[row]],
      stream: columns.stream_names[columns.stream[row]], place: columns.place[row],
      thread: columns.thread_names[columns.thread[row]] ?? 'not known', finding: columns.finding[row],
      step: columns.step[row], rule: columns.rule_names[columns.rule[row]],
    };
  });
})();
