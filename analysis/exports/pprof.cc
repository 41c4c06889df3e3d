#include "analysis/exports/pprof.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "analysis/exports/frame_names.h"
#include "analysis/exports/gzip_sink.h"
#include "analysis/exports/held.h"
#include "analysis/exports/wire_message.h"
#include "analysis/printable.h"
#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

// Numbers of fields in profile.proto.
namespace profile {
enum : std::uint32_t {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kFunction = 5,
  kStringTable = 6,
  kTimeNanos = 9,
  kDurationNanos = 10,
  kPeriodType = 11,
  kPeriod = 12,
  kComment = 13,
  kDefaultSampleType = 14,
};
}
namespace value_type {
enum : std::uint32_t { kType = 1, kUnit = 2 };
}
namespace sample {
enum : std::uint32_t { kLocationId = 1, kValue = 2, kLabel = 3 };
}
namespace label {
enum : std::uint32_t { kKey = 1, kStr = 2 };
}
namespace mapping {
enum : std::uint32_t {
  kId = 1,
  kMemoryStart = 2,
  kMemoryLimit = 3,
  kFilename = 5,
  kBuildId = 6,
  kHasFunctions = 7,
  kHasFilenames = 8,
  kHasLineNumbers = 9,
  kHasInlineFrames = 10,
};
}
namespace location {
enum : std::uint32_t { kId = 1, kMappingId = 2, kAddress = 3, kLine = 4 };
}
namespace line {
enum : std::uint32_t { kFunctionId = 1, kLine = 2 };
}
namespace function {
enum : std::uint32_t { kId = 1, kName = 2, kSystemName = 3, kFilename = 4 };
}

class ProfileWriter {
 public:
  ProfileWriter(const Snapshot& snapshot, TextSink& sink) : snapshot_(snapshot), names_(snapshot), sink_(sink) {
    String("");  // entry 0 must be empty
    WriteMappings();
  }

  void Type(std::uint32_t field, std::string_view type, std::string_view unit) {
    WireMessage message;
    message.Number(value_type::kType, String(type));
    message.Number(value_type::kUnit, String(unit));
    Emit(field, message);
  }
  void Number(std::uint32_t field, std::uint64_t value) {
    WireMessage message;
    message.Number(field, value);
    sink_.Write(message.text());
  }
  std::uint64_t String(std::string_view text) {
    const auto [entry, added] = strings_.try_emplace(ValidUtf8(text), strings_.size());
    if (added) {
      WireMessage message;
      message.Bytes(profile::kStringTable, entry->first);
      sink_.Write(message.text());
    }
    return entry->second;
  }
  using Label = std::pair<std::string_view, std::string>;
  void Sample(const HeldStack& entry, const std::vector<Label>& labels) {
    WireMessage message;
    message.Numbers(sample::kLocationId, Locations(entry));
    // In the order of the sample types. Zeros must be there, too: one value for each type.
    message.Numbers(sample::kValue, {entry.allocations, entry.allocated_bytes, entry.blocks, entry.bytes});
    for (const auto& [key, value] : labels) {
      WireMessage pair;
      pair.Number(label::kKey, String(key));
      pair.Number(label::kStr, String(value));
      message.Message(sample::kLabel, pair);
    }
    Emit(profile::kSample, message);
  }

 private:
  void Emit(std::uint32_t field, const WireMessage& message) {
    WireMessage outer;
    outer.Message(field, message);
    sink_.Write(outer.text());
  }

  // The first mapping is taken for the main program's.
  void WriteMappings() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < snapshot_.modules.size(); ++i) {
      if (snapshot_.modules[i].end > snapshot_.modules[i].begin) order.push_back(i);
    }
    std::stable_partition(order.begin(), order.end(),
                          [&](std::size_t i) { return snapshot_.modules[i].path == snapshot_.process.executable; });
    mapping_of_module_.resize(snapshot_.modules.size());
    for (std::size_t n = 0; n < order.size(); ++n) {
      const Module& module = snapshot_.modules[order[n]];
      mapping_of_module_[order[n]] = n + 1;
      WireMessage message;
      message.Number(mapping::kId, n + 1);
      message.Number(mapping::kMemoryStart, module.begin);
      message.Number(mapping::kMemoryLimit, module.end);
      message.Number(mapping::kFilename, String(module.path));
      message.Number(mapping::kBuildId, String(module.build_id));
      // What could be found was found when the snapshot was made: pprof need not look again.
      for (const std::uint32_t has :
           {mapping::kHasFunctions, mapping::kHasFilenames, mapping::kHasLineNumbers, mapping::kHasInlineFrames})
        message.Number(has, 1);
      Emit(profile::kMapping, message);
    }
  }

  // Innermost first, as in the model.
  const std::vector<std::uint64_t>& Locations(const HeldStack& entry) {
    const std::vector<std::uint32_t>& frames = snapshot_.stacks[entry.stack].frames;
    if (entry.part != HeldPart::kBlocks || frames.empty()) {
      std::vector<std::uint64_t>& pseudo = of_part_[static_cast<std::size_t>(entry.part)];
      if (pseudo.empty()) pseudo.push_back(PartLocation(entry.part));
      return pseudo;
    }
    const auto [known, added] = of_stack_.try_emplace(entry.stack);
    if (!added) return known->second;
    std::vector<std::uint32_t> group;
    for (const std::uint32_t frame : frames) {
      group.push_back(frame);
      if (snapshot_.frames[frame].inlined) continue;  // lies at the same address as the next
      known->second.push_back(Location(group));
      group.clear();
    }
    if (!group.empty()) known->second.push_back(Location(group));
    return known->second;
  }

  std::uint64_t PartLocation(HeldPart part) {
    WireMessage message;
    message.Number(location::kId, ++last_location_);
    WireMessage line;
    line.Number(line::kFunctionId, Function(std::string(NameOf(part)), ""));
    message.Message(location::kLine, line);
    Emit(profile::kLocation, message);
    return last_location_;
  }

  std::uint64_t Location(const std::vector<std::uint32_t>& group) {
    const auto [known, added] = locations_.try_emplace(group, last_location_ + 1);
    if (!added) return known->second;
    ++last_location_;
    const Frame& outer = snapshot_.frames[group.back()];
    WireMessage message;
    message.Number(location::kId, last_location_);
    if (outer.kind == FrameKind::kNative && outer.module != 0 && mapping_of_module_[outer.module - 1] != 0) {
      const Module& module = snapshot_.modules[outer.module - 1];
      // Return addresses point behind the call.
      const std::uint64_t address = module.load_bias + outer.offset - 1;
      if (module.begin <= address && address < module.end) {
        message.Number(location::kMappingId, mapping_of_module_[outer.module - 1]);
        message.Number(location::kAddress, address);
      }
    }
    for (const std::uint32_t frame : group) {
      WireMessage line;
      line.Number(line::kFunctionId, Function(names_.Function(frame), names_.File(frame)));
      line.Number(line::kLine, names_.Line(frame));
      message.Message(location::kLine, line);
    }
    Emit(profile::kLocation, message);
    return known->second;
  }

  std::uint64_t Function(const std::string& name, const std::string& file) {
    const auto [known, added] = functions_.try_emplace({name, file}, functions_.size() + 1);
    if (!added) return known->second;
    WireMessage message;
    message.Number(function::kId, known->second);
    message.Number(function::kName, String(name));
    message.Number(function::kSystemName, String(name));
    message.Number(function::kFilename, String(file));
    Emit(profile::kFunction, message);
    return known->second;
  }

  const Snapshot& snapshot_;
  FrameNames names_;
  TextSink& sink_;
  std::unordered_map<std::string, std::uint64_t> strings_;
  std::vector<std::uint64_t> mapping_of_module_;  // 0: none
  std::map<std::vector<std::uint32_t>, std::uint64_t> locations_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> functions_;
  std::unordered_map<std::uint32_t, std::vector<std::uint64_t>> of_stack_;
  std::array<std::vector<std::uint64_t>, 3> of_part_;
  std::uint64_t last_location_ = 0;
};

std::string Hexadecimal(std::uint64_t value) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return text.data();
}

void WriteHead(const Snapshot& snapshot, const Moment& moment, std::int64_t time_ns, ProfileWriter& writer) {
  writer.Type(profile::kSampleType, "alloc_objects", "count");
  writer.Type(profile::kSampleType, "alloc_space", "bytes");
  writer.Type(profile::kSampleType, "inuse_objects", "count");
  writer.Type(profile::kSampleType, "inuse_space", "bytes");
  writer.Number(profile::kDefaultSampleType, writer.String("inuse_space"));
  writer.Type(profile::kPeriodType, "space", "bytes");
  writer.Number(profile::kPeriod, 1);  // every allocation is in it
  writer.Number(profile::kTimeNanos,
                static_cast<std::uint64_t>(snapshot.process.start_realtime_ns) + static_cast<std::uint64_t>(time_ns));
  writer.Number(profile::kDurationNanos,
                static_cast<std::uint64_t>(std::max<std::int64_t>(0, snapshot.process.duration_ns)));
  writer.Number(profile::kComment, writer.String(ExporterName(snapshot) + ": " + TitleOf(snapshot, moment)));
  if (!snapshot.process.executable.empty()) {
    writer.Number(profile::kComment,
                  writer.String(snapshot.process.executable + ", process " + std::to_string(snapshot.process.pid) +
                                " on " + snapshot.process.host));
  }
}

}  // namespace

absl::Status PprofProfile::Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest& request,
                                 TextSink& sink, std::vector<std::string>& notes) const {
  const std::unique_ptr<TextSink> gzip = Gzip(sink);
  ProfileWriter writer(snapshot, *gzip);
  const std::vector<Held> places = HeldAt(snapshot, blocks, request.at);
  AddHeldNotes(snapshot, blocks, request.at, places, notes);
  WriteHead(snapshot, request.at, places.empty() ? 0 : places.front().time_ns, writer);
  const auto rank = snapshot.process.launcher.find("RANK");
  for (const Held& held : places) {
    const std::string device = held.host ? "host" : std::to_string(held.device);
    for (const HeldStack& entry : held.stacks) {
      if (entry.bytes == 0 && entry.allocations == 0) continue;
      std::vector<ProfileWriter::Label> labels{{"device", device}};
      if (entry.part == HeldPart::kBlocks) {
        labels.emplace_back("kind", ToString(entry.kind));
        if (request.at.kind != MomentKind::kLeaked) labels.emplace_back("stream", Hexadecimal(entry.stream));
      }
      if (rank != snapshot.process.launcher.end()) labels.emplace_back("rank", rank->second);
      writer.Sample(entry, labels);
    }
  }
  return gzip->Finish();
}

}  // namespace cuheap::analysis
