#include "analysis/journal_stacks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "analysis/interner.h"
#include "analysis/journal_python.h"
#include "analysis/python_lines.h"

namespace cuheap::analysis {
namespace {

using journal::StackHeader;

constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kHeaderWords = sizeof(StackHeader) / kWordBytes;

// The words of all kStacks extents as one sequence, read in pieces: ids come in ascending order, so one piece is
// enough.
class StackWords {
 public:
  StackWords(const JournalBytes& bytes, const std::vector<ExtentPlace>& extents) : bytes_(bytes) {
    std::uint64_t first = 0;
    for (const ExtentPlace& extent : extents) {
      const std::uint64_t claimed = extent.claimed_bytes / kWordBytes;
      parts_.push_back({first, extent.bytes / kWordBytes, extent.offset});
      if (claimed > UINT64_MAX - first) break;  // ids have 32 bits: nothing behind this can be named
      first += claimed;
    }
  }

  // The `count` words at `index`, which lie in one extent; null if there are no such words.
  const std::uint64_t* Get(std::uint64_t index, std::uint64_t count) {
    if (index >= piece_first_ && index + count <= piece_first_ + piece_.size()) return &piece_[index - piece_first_];
    auto part = std::upper_bound(parts_.begin(), parts_.end(), index,
                                 [](std::uint64_t value, const Part& p) { return value < p.first; });
    if (part == parts_.begin()) return nullptr;
    --part;
    const std::uint64_t within = index - part->first;
    if (within >= part->count || count > part->count - within) return nullptr;
    piece_.resize(std::max(count, std::min(part->count - within, kPieceWords)));
    piece_first_ = index;
    if (!bytes_.Read(part->offset + within * kWordBytes, piece_.data(), piece_.size() * kWordBytes)) {
      piece_.clear();
      return nullptr;
    }
    return piece_.data();
  }

 private:
  static constexpr std::uint64_t kPieceWords = 65536;
  struct Part {
    std::uint64_t first, count, offset;
  };
  const JournalBytes& bytes_;
  std::vector<Part> parts_;
  std::vector<std::uint64_t> piece_;
  std::uint64_t piece_first_ = 0;
};

bool IsPython(std::uint64_t word) { return word >> journal::kModuleShift == journal::kPythonModule; }

std::uint32_t CodeOf(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> journal::kPythonCodeShift) & journal::kMaxPythonCodes;
}

struct RawStack {
  const std::uint64_t* words = nullptr;  // nullptr: the stack could not be read
  std::uint16_t depth = 0, flags = 0;
};

// Reads the stacks of ids in ascending order.
class StackReader {
 public:
  StackReader(const JournalBytes& bytes, const JournalLayout& layout) : words_(bytes, layout.stacks) {
    for (const ExtentPlace& extent : layout.stacks) words_left_ += extent.bytes / kWordBytes;
  }

  RawStack Read(std::uint32_t id) {
    RawStack stack;
    const std::uint64_t* header_words = words_.Get(id, kHeaderWords);
    if (header_words == nullptr) return stack;
    const auto& header = *reinterpret_cast<const StackHeader*>(header_words);
    if (header.commit.load() != journal::kStackCommitted) return stack;
    stack.depth = header.depth;
    stack.flags = header.flags;
    if (stack.depth + kHeaderWords > words_left_) return stack;
    stack.words = stack.depth == 0 ? header_words : words_.Get(id + kHeaderWords, stack.depth);
    if (stack.words != nullptr) words_left_ -= stack.depth + kHeaderWords;
    return stack;
  }

 private:
  StackWords words_;
  // Sound stacks share no words. Damaged ids could make every word the beginning of a stack: bound what is decoded.
  std::uint64_t words_left_ = 0;
};

absl::flat_hash_set<std::uint32_t> CodesOf(const JournalBytes& bytes, const JournalLayout& layout,
                                           const std::vector<std::uint32_t>& ids) {
  absl::flat_hash_set<std::uint32_t> codes;
  StackReader reader(bytes, layout);
  for (const std::uint32_t id : ids) {
    const RawStack stack = reader.Read(id);
    for (std::uint16_t i = 0; stack.words != nullptr && i < stack.depth; ++i) {
      if (IsPython(stack.words[i])) codes.insert(CodeOf(stack.words[i]));
    }
  }
  codes.erase(0);
  return codes;
}

class StackDecoder {
 public:
  StackDecoder(Snapshot& snapshot, PythonCodes codes)
      : modules_(snapshot.modules.size()),
        codes_(std::move(codes)),
        strings_(snapshot.strings),
        frames_(snapshot.frames),
        stacks_(snapshot.stacks) {
    not_symbolised_ = strings_.Intern(kNotSymbolised);
    no_module_ = strings_.Intern(kNoModule);
    lost_ = strings_.Intern(kStackLost);
  }

  std::uint32_t Decode(const std::uint64_t* words, std::uint16_t depth, std::uint16_t flags) {
    Stack stack;
    stack.truncated = (flags & (journal::kStackTruncated | journal::kStackPythonTruncated)) != 0;
    stack.unwind_failed = (flags & (journal::kStackUnwindFailed | journal::kStackPythonUnreadable)) != 0;
    stack.python_unplaced = (flags & journal::kStackPythonUnplaced) != 0;
    stack.no_python =
        WhyNoPython(static_cast<journal::NoPython>((flags >> journal::kNoPythonShift) & journal::kNoPythonMask));
    stack.frames.reserve(depth);
    for (std::uint16_t i = 0; i < depth; ++i) stack.frames.push_back(frames_.Intern(FrameOf(words[i])));
    return stacks_.Intern(stack);
  }

  std::uint32_t Lost() {
    Frame frame;
    frame.reason = lost_;
    Stack stack;
    stack.frames.push_back(frames_.Intern(frame));
    return stacks_.Intern(stack);
  }

 private:
  std::uint32_t WhyNoPython(journal::NoPython why) {
    switch (why) {
      case journal::NoPython::kUnknownThread:
        return strings_.Intern(kPythonUnknownThread);
      case journal::NoPython::kNoFrame:
        return strings_.Intern(kPythonIdleThread);
      case journal::NoPython::kNotInitialized:
        return strings_.Intern(kPythonNotInitialized);
      case journal::NoPython::kNotAsked:
        break;
    }
    return 0;
  }

  Frame FrameOf(std::uint64_t word) {
    if (IsPython(word)) return PythonFrame(word);
    Frame frame;
    frame.kind = FrameKind::kNative;
    const std::uint64_t module = word >> journal::kModuleShift;
    frame.offset = word & ((std::uint64_t{1} << journal::kModuleShift) - 1);
    const bool known = module != 0 && module <= modules_;
    frame.module = known ? static_cast<std::uint32_t>(module) : 0;
    frame.reason = known ? not_symbolised_ : no_module_;
    return frame;
  }

  Frame PythonFrame(std::uint64_t word) {
    const auto [found, fresh] = python_frames_.try_emplace(word);
    if (!fresh) return found->second;
    Frame& frame = found->second;
    frame.kind = FrameKind::kPython;
    const auto code = codes_.find(CodeOf(word));
    if (code == codes_.end()) {
      frame.reason = strings_.Intern(kPythonCodeLost);
      return frame;
    }
    const PythonCode& facts = code->second;
    frame.function = strings_.Intern(facts.name.empty() ? "<unnamed>" : facts.name);
    if (!facts.file_cut) frame.file = strings_.Intern(facts.file);
    const auto instruction = static_cast<std::uint32_t>(word & journal::kNoPythonInstruction);
    if (facts.has_lines && instruction != journal::kNoPythonInstruction) {
      frame.line = PythonLine(facts.version, facts.line_table, facts.first_line, std::uint64_t{instruction} * 2);
    }
    if (facts.file_cut) {
      frame.reason = strings_.Intern(kPythonFileCut);
    } else if (frame.line == 0) {
      frame.reason = strings_.Intern(kPythonNoLine);
    }
    return frame;
  }

  std::size_t modules_;
  PythonCodes codes_;
  absl::flat_hash_map<std::uint64_t, Frame> python_frames_;
  Interner<std::string> strings_;
  Interner<Frame> frames_;
  Interner<Stack> stacks_;
  std::uint32_t not_symbolised_ = 0, no_module_ = 0, lost_ = 0;
};

}  // namespace

absl::flat_hash_map<std::uint32_t, std::uint32_t> ReadJournalStacks(const JournalBytes& bytes,
                                                                    const JournalLayout& layout,
                                                                    const std::vector<std::uint32_t>& ids,
                                                                    Snapshot& snapshot, JournalDamage& damage) {
  absl::flat_hash_map<std::uint32_t, std::uint32_t> indices{{0, 0}};
  if (ids.empty()) return indices;
  StackDecoder decoder(snapshot, ReadPythonCodes(bytes, layout, CodesOf(bytes, layout, ids), damage));
  StackReader reader(bytes, layout);
  std::uint64_t lost = 0;
  for (const std::uint32_t id : ids) {
    const RawStack stack = reader.Read(id);
    if (stack.words == nullptr) {
      ++lost;
      indices[id] = decoder.Lost();
      continue;
    }
    indices[id] = decoder.Decode(stack.words, stack.depth, stack.flags);
  }
  if (lost > 0) damage.Add("stacks: " + std::to_string(lost) + " could not be read");
  return indices;
}

}  // namespace cuheap::analysis
