#include "analysis/journal_stacks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "analysis/interner.h"

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

class StackDecoder {
 public:
  explicit StackDecoder(Snapshot& snapshot)
      : modules_(snapshot.modules.size()), frames_(snapshot.frames), stacks_(snapshot.stacks) {
    Interner<std::string> strings(snapshot.strings);
    not_symbolised_ = strings.Intern(kNotSymbolised);
    no_module_ = strings.Intern(kNoModule);
    lost_ = strings.Intern(kStackLost);
  }

  std::uint32_t Decode(const std::uint64_t* words, std::uint16_t depth, std::uint16_t flags) {
    Stack stack;
    stack.truncated = (flags & journal::kStackTruncated) != 0;
    stack.unwind_failed = (flags & journal::kStackUnwindFailed) != 0;
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
  Frame FrameOf(std::uint64_t word) const {
    Frame frame;
    frame.kind = FrameKind::kNative;
    const std::uint64_t module = word >> journal::kModuleShift;
    frame.offset = word & ((std::uint64_t{1} << journal::kModuleShift) - 1);
    const bool known = module != 0 && module <= modules_;
    frame.module = known ? static_cast<std::uint32_t>(module) : 0;
    frame.reason = known ? not_symbolised_ : no_module_;
    return frame;
  }

  std::size_t modules_;
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
  StackWords words(bytes, layout.stacks);
  // Sound stacks share no words. Damaged ids could make every word the beginning of a stack: bound what is decoded.
  std::uint64_t words_left = 0;
  for (const ExtentPlace& extent : layout.stacks) words_left += extent.bytes / kWordBytes;
  StackDecoder decoder(snapshot);
  std::uint64_t lost = 0;
  for (const std::uint32_t id : ids) {
    std::uint16_t depth = 0, flags = 0;
    bool sound = false;
    if (const std::uint64_t* header_words = words.Get(id, kHeaderWords)) {
      const auto& header = *reinterpret_cast<const StackHeader*>(header_words);
      sound = header.commit.load() == journal::kStackCommitted;
      depth = header.depth;
      flags = header.flags;
    }
    const std::uint64_t* frames =
        sound && depth + kHeaderWords <= words_left ? words.Get(id + kHeaderWords, depth) : nullptr;
    if (sound && depth == 0) frames = words.Get(id, kHeaderWords);  // any pointer: there is nothing to read
    if (frames == nullptr) {
      ++lost;
      indices[id] = decoder.Lost();
      continue;
    }
    words_left -= std::min(words_left, depth + kHeaderWords);
    indices[id] = decoder.Decode(frames, depth, flags);
  }
  if (lost > 0) damage.Add("stacks: " + std::to_string(lost) + " could not be read");
  return indices;
}

}  // namespace cuheap::analysis
