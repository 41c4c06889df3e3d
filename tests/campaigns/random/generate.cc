#include "tests/campaigns/random/generate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tests/campaigns/random/generator.h"

namespace cuheap::campaigns {
namespace {

constexpr std::array<Profile, 12> kProfiles{{
    {.name = "sync"},
    {.name = "stream", .stream_ordered = true, .pools = true},
    {.name = "host", .host_memory = true, .default_streams = true},
    {.name = "threads", .stream_ordered = true, .default_streams = true},
    {.name = "devices", .devices = 3, .stream_ordered = true, .share = 0.5, .pools = true},
    {.name = "virtual", .devices = 2, .threads = 2, .virtual_memory = true},
    {.name = "graphs", .threads = 2, .stream_ordered = true, .share = 0.5, .graphs = true},
    {.name = "processes", .devices = 2, .threads = 2, .operations = 90, .processes = true},
    {.name = "contexts", .devices = 2, .threads = 2, .stream_ordered = true, .contexts = true},
    {.name = "pressure",
     .memory = 64u << 20,
     .threads = 1,
     .stream_ordered = true,
     .share = 0.5,
     .pools = true,
     .virtual_memory = true},
    {.name = "mixed",
     .devices = 2,
     .operations = 180,
     .stream_ordered = true,
     .pools = true,
     .virtual_memory = true,
     .host_memory = true,
     .default_streams = true,
     .graphs = true,
     .contexts = true},
    {.name = "lost",
     .threads = 1,
     .operations = 50,
     .stream_ordered = true,
     .pools = true,
     .host_memory = true,
     .default_streams = true,
     .lost = true},
}};

Program Header(std::uint64_t seed, const Profile& profile, std::mt19937_64& random) {
  Program program;
  program.seed = seed;
  program.devices = profile.devices;
  program.memory = profile.memory;
  if (profile.threads > 1 && random() % 2 == 0)
    program.threads = std::uniform_int_distribution<int>(2, profile.threads)(random);
  return program;
}

}  // namespace

std::span<const Profile> Profiles() { return kProfiles; }

const Profile* FindProfile(std::string_view name) {
  const auto* found =
      std::find_if(kProfiles.begin(), kProfiles.end(), [&](const Profile& p) { return p.name == name; });
  return found == kProfiles.end() ? nullptr : found;
}

Program Generate(std::uint64_t seed, const Profile& profile) { return Generator(seed, profile).Run(); }

Generator::Generator(std::uint64_t seed, const Profile& profile)
    : random_(seed * 0x9E3779B97F4A7C15u + profile.name[0] + 1),
      profile_(profile),
      program_(Header(seed, profile, random_)),
      model_(program_) {
  // Quiet programs read nothing back between their phases: no free of theirs has to wait for a copy, so that blocks
  // really are freed under running kernels.
  quiet_ = Chance(0.6);
  pinned_ = !quiet_ && Chance(0.5);
  apart_ = Chance(0.5);
  synchronizing_ = Between(0, 2);
}

Program Generator::Run() {
  SetUp();
  const int phases = Between(1, 3);
  for (int phase = 0; phase < phases; ++phase) {
    if (phase > 0 && Chance(0.5)) Interlude();
    Phase(phase + 1 == phases);
  }
  return std::move(program_);
}

bool Generator::Emit(OpKind kind, std::array<std::int64_t, 6> args) {
  const Op op{kind, thread_, args};
  if (!model_.Apply(op).empty()) return false;
  program_.ops.push_back(op);
  return true;
}

void Generator::SetUp() {
  thread_ = 0;
  for (int device = 0; device < program_.devices; ++device) Emit(OpKind::kRetainPrimary, {New('c'), device});
  if (profile_.contexts || Chance(0.3)) Emit(OpKind::kCreateContext, {New('c'), Between(0, program_.devices - 1)});
  for (const auto& [context, known] : model_.contexts()) {
    Enter(context);
    for (const auto& [peer, other] : model_.contexts()) {
      if (other.device != known.device && Chance(0.6)) Emit(OpKind::kEnablePeer, {peer});
    }
  }
  if (profile_.pools) {
    for (int i = 0; i < 4; ++i) PoolCalls();
  }
  const int each = apart_ ? Between(2, 3) : Between(1, 3);
  for (const auto& [context, known] : model_.contexts()) {
    Enter(context);
    for (int i = 0; i < each * program_.threads; ++i) {
      const std::int64_t stream = New('s');
      Emit(OpKind::kCreateStream, {stream, Chance(apart_ ? 0.1 : 0.5) ? 0 : 1});
      stream_owner_[stream] = i % program_.threads;
    }
  }
  Emit(OpKind::kMeet);
}

void Generator::Phase(bool last) {
  const int each = std::max(4, profile_.operations / (3 * program_.threads));
  for (auto& [block, plan] : plans_) plan.owner = Between(0, program_.threads - 1);
  for (thread_ = 0; thread_ < program_.threads; ++thread_) {
    if (model_.current(thread_) < 0 || Chance(0.3)) {
      std::vector<std::int64_t> live;
      for (const auto& [number, context] : model_.contexts()) {
        if (context.live) live.push_back(number);
      }
      Enter(OneOf(live));
    }
    for (int i = 0; i < each; ++i) Step();
    if (last && profile_.lost) {
      const std::int64_t block = PickBlock();
      const std::int64_t stream = PickStream();
      if (block < 0) continue;
      Emit(OpKind::kIllegalAccess, {stream});
      Emit(OpKind::kCodes, {block, stream});
      return;
    }
    ReadRest(last);
  }
  thread_ = 0;
  Emit(OpKind::kMeet);
}

void Generator::Interlude() {
  thread_ = 0;
  interlude_ = true;
  for (auto& [block, plan] : plans_) plan.owner = 0;
  if (model_.current(0) < 0) Enter(0);
  for (int i = Between(1, 4); i > 0; --i) {
    if (profile_.pools && Chance(0.7)) PoolCalls();
    if (profile_.contexts && Chance(0.7)) ContextCalls();
    Ask();
  }
  Emit(OpKind::kMeet);
  interlude_ = false;
}

void Generator::Step() {
  if (profile_.graphs && Chance(0.15) && Graphs()) return;
  if (profile_.processes && Chance(0.2) && Elsewhere()) return;
  if (profile_.virtual_memory && Chance(0.1) && VirtualMemory()) return;
  const int dice = Between(0, 99);
  if (PickBlock() < 0 || dice < 20) {
    if (profile_.host_memory && Chance(0.25)) {
      AllocateHostMemory();
    } else {
      Allocate();
    }
    return;
  }
  bool done = false;
  if (dice < 38) {
    done = Free();
  } else if (dice < 66) {
    done = Work();
  } else if (dice < 76) {
    done = quiet_ ? Work() : CopyOut();
  } else if (dice < 80) {
    done = profile_.host_memory ? HostWork() : Work();
  } else if (dice < 84) {
    done = ReadSome();
  } else if (dice < 88) {
    done = quiet_ ? Work() : ReadSome();
  } else if (dice < 90) {
    done = Chance(0.5) ? SynchronousWork() : Ask();
  } else if (dice < 92) {
    done = DestroyStream();
  } else if (dice < 94) {
    done = alone() && ((profile_.pools && PoolCalls()) || (profile_.contexts && ContextCalls()));
  } else {
    done = Synchronize();
  }
  if (!done) Work();
}

std::uint64_t Generator::PickSize() {
  using Range = std::array<int, 2>;
  static constexpr Range kTiny{4, 4096}, kSmall{4096, 40'000}, kMiddle{40'000, 300'000}, kBig{300'000, 1'200'000};
  static constexpr Range kDedicated{2'000'000, 2'600'000}, kHuge{2'000'000, 9'000'000};
  static constexpr std::array kUsual{kTiny, kTiny, kSmall, kSmall, kMiddle, kMiddle, kBig, kDedicated};
  static constexpr std::array kFilling{kTiny, kSmall, kMiddle, kBig, kBig, kDedicated, kHuge, kHuge};
  // Few distinct sizes, so that freed memory is really asked for again.
  if (!sizes_.empty() && Chance(0.7)) return OneOf(sizes_);
  const Range& range = (program_.memory != 0 ? kFilling : kUsual)[static_cast<std::size_t>(Between(0, 7))];
  sizes_.push_back(static_cast<std::uint64_t>(Between(range[0], range[1])) / 4 * 4);
  return sizes_.back();
}

bool Generator::Fits(std::uint64_t bytes) const {
  return program_.memory != 0 || LiveBytes() + bytes <= kMaxLive;  // the model knows when a device is full
}

std::uint64_t Generator::LiveBytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [number, memory] : model_.memories()) bytes += memory.live ? memory.bytes : 0;
  return bytes;
}

std::vector<std::int64_t> Generator::MyBlocks() {
  std::vector<std::int64_t> mine;
  for (const auto& [number, memory] : model_.memories()) {
    const auto plan = plans_.find(number);
    if (model_.Free(memory, thread_) && plan != plans_.end() && plan->second.owner == thread_) mine.push_back(number);
  }
  return mine;
}

std::int64_t Generator::PickBlock() {
  std::vector<std::int64_t> mine = MyBlocks();
  std::erase_if(mine, [this](std::int64_t block) { return plans_[block].watched || !Block(block).defined; });
  return mine.empty() ? -1 : OneOf(mine);
}

std::vector<std::int64_t> Generator::MyStreams() const {
  std::vector<std::int64_t> mine;
  for (const auto& [number, stream] : model_.streams()) {
    if (model_.Free(stream, thread_) && stream.context == model_.current(thread_) &&
        stream_owner_.at(number) == thread_)
      mine.push_back(number);
  }
  return mine;
}

std::int64_t Generator::PickStream(std::int64_t block) {
  const std::vector<std::int64_t> mine = MyStreams();
  if (block >= 0 && apart_ && Chance(0.95)) {
    const std::int64_t home = plans_[block].home;
    if (home < 0 || std::find(mine.begin(), mine.end(), home) != mine.end()) return home;
  }
  if (mine.empty() || Chance(apart_ ? 0.02 : 0.15) || (profile_.default_streams && Chance(0.3))) {
    static constexpr std::array kNames{kNullStream, kLegacyStream, kNullPtsz, kPerThreadStream};
    return profile_.default_streams ? kNames[static_cast<std::size_t>(Between(0, 3))] : kNullStream;
  }
  return OneOf(mine);
}

// ---- the ends of phases ----

// At the end of a phase every copy is read; at the end of the program, and between the phases of a quiet one, every
// block is copied out, before and after the context is idle: work that ran too late shows in the second copy only.
void Generator::ReadRest(bool last) {
  const bool all = last || quiet_;
  if (all) CopyOutAll();
  Emit(OpKind::kContextSynchronize);
  if (all) CopyOutAll();
  Emit(OpKind::kContextSynchronize);
  for (const std::int64_t bytes : std::set(unread_)) {
    if (!MyHostBytes(bytes)) continue;
    OrderHostAfter(model_.host().at(bytes).writer);
    if (Emit(OpKind::kRead, {bytes})) unread_.erase(bytes);
  }
  if (!last) return;
  for (const std::int64_t block : MyBlocks()) {
    if (Chance(0.7)) FreeBlock(block, Chance(0.5));
  }
}

void Generator::CopyOutAll() {
  for (const std::int64_t block : MyBlocks()) {
    if (Block(block).defined) CopyOut(block);
    plans_[block].watched = false;
  }
}

}  // namespace cuheap::campaigns
