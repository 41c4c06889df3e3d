#include "tests/interpose/recorder/journal_view.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace cuheap::testing {

using journal::Extent;
using journal::ExtentKind;

JournalView::JournalView(const std::string& path) { Read(path); }

void JournalView::Read(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY);
  struct stat facts{};
  if (descriptor < 0 || fstat(descriptor, &facts) != 0) {
    return Problem("cannot open " + path);
  }
  size_ = static_cast<std::uint64_t>(facts.st_size);
  void* memory = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (memory == MAP_FAILED || size_ < journal::kHeaderBytes) return Problem("no header");
  data_ = static_cast<const char*>(memory);
  header_ = reinterpret_cast<const journal::FileHeader*>(data_);
  if (header_->magic.load() != journal::kMagic) return Problem("no magic");
  std::uint64_t stack_words = 0;
  for (std::uint32_t i = 0; i < header_->extent_count.load(); ++i) {
    const Extent& extent = header_->extents[i];
    if (extent.offset % journal::kExtentAlignment != 0 || extent.bytes % journal::kExtentAlignment != 0 ||
        extent.offset + extent.bytes > size_) {
      return Problem("an extent lies outside the file");
    }
    switch (static_cast<ExtentKind>(extent.kind)) {
      case ExtentKind::kEvents:
        ReadEvents(extent);
        break;
      case ExtentKind::kLive:
        ReadLive(extent);
        break;
      case ExtentKind::kStacks:
        ReadStacks(extent, stack_words);
        stack_words += extent.bytes / 8;
        break;
      case ExtentKind::kModules:
        ReadModules(extent);
        break;
      case ExtentKind::kThreads:
        ReadThreads(extent);
        break;
      case ExtentKind::kNotes:
        ReadNotes(extent);
        break;
      case ExtentKind::kPythonCode:
        break;  // read by the tests of its own
      default:
        Problem("an extent of no kind");
    }
  }
  std::sort(events.begin(), events.end(), [](const ViewEvent& a, const ViewEvent& b) {
    return std::tie(a.time_ns, a.chain, a.sequence) < std::tie(b.time_ns, b.chain, b.sequence);
  });
  CheckReferences();
}

JournalView::~JournalView() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

void JournalView::ReadEvents(const Extent& extent) {
  ++event_extents;
  const auto* head = At<journal::EventExtentHeader>(extent);
  const auto* records = reinterpret_cast<const journal::Event*>(head + 1);
  const std::uint64_t first = head->first_sequence.load();
  const std::uint64_t count = (extent.bytes - sizeof(*head)) / sizeof(journal::Event);
  if (first == 0) return;
  bool ended = false;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (records[i].commit.load() != first + i) {
      ended = true;
      continue;
    }
    // A chain's events are written in order, so there is no hole.
    if (ended) Problem("an event after a hole");
    const journal::Event& r = records[i];
    events.push_back(ViewEvent{head->chain.load(), first + i, r.time_ns, r.address, r.bytes, r.allocation_id, r.stream,
                               r.stack, r.thread, static_cast<journal::EventType>(r.type),
                               static_cast<journal::AllocationKind>(r.kind), r.device, r.flags, r.result});
  }
}

void JournalView::ReadLive(const Extent& extent) {
  const auto* slots = At<journal::LiveSlot>(extent);
  for (std::uint64_t i = 0; i < extent.bytes / sizeof(journal::LiveSlot); ++i) {
    const journal::LiveSlot& s = slots[i];
    if (s.sequence.load() % 2 != 0) {
      ++odd_slots;
    } else if (s.state == 1) {
      live.push_back(ViewBlock{s.allocation_id, s.address, s.bytes, s.reserved_bytes, s.time_ns, s.stream, s.context,
                               s.stack, s.thread, static_cast<journal::AllocationKind>(s.kind), s.device, s.flags,
                               s.mapped_address});
    }
  }
}

void JournalView::ReadStacks(const Extent& extent, std::uint64_t first_word) {
  const auto* words = At<std::uint64_t>(extent);
  const std::uint64_t count = extent.bytes / 8;
  for (std::uint64_t i = first_word == 0 ? 1 : 0; i + 2 <= count;) {
    const auto* head = reinterpret_cast<const journal::StackHeader*>(words + i);
    if (head->commit.load() != journal::kStackCommitted) break;
    if (i + 2 + head->depth > count) return Problem("a stack crosses its extent");
    ViewStack stack;
    stack.flags = head->flags;
    stack.words.assign(words + i + 2, words + i + 2 + head->depth);
    stacks[static_cast<std::uint32_t>(first_word + i)] = stack;
    i += 2u + head->depth;
  }
}

void JournalView::ReadModules(const Extent& extent) {
  const auto* records = At<journal::ModuleRecord>(extent);
  for (std::uint64_t i = 0; i < extent.bytes / sizeof(journal::ModuleRecord); ++i) {
    const journal::ModuleRecord& r = records[i];
    if (r.commit.load() == 0) break;
    if (r.commit.load() != modules.size() + 1) return Problem("module out of order");
    modules.push_back(ViewModule{r.load_bias, r.begin, r.end, std::string(r.path, r.path_bytes),
                                 std::string(reinterpret_cast<const char*>(r.build_id), r.build_id_bytes)});
  }
}

void JournalView::ReadThreads(const Extent& extent) {
  const auto* records = At<journal::ThreadRecord>(extent);
  for (std::uint64_t i = 0; i < extent.bytes / sizeof(journal::ThreadRecord); ++i) {
    const journal::ThreadRecord& r = records[i];
    if (r.commit.load() == 0) break;
    if (r.commit.load() != threads.size() + 1) return Problem("thread out of order");
    threads.push_back(ViewThread{r.tid, r.first_ns, r.last_ns.load(), std::string(r.name)});
  }
}

void JournalView::ReadNotes(const Extent& extent) {
  const auto* records = At<journal::NoteRecord>(extent);
  for (std::uint64_t i = 0; i < extent.bytes / sizeof(journal::NoteRecord); ++i) {
    const journal::NoteRecord& r = records[i];
    if (r.commit.load() == 0) break;
    if (r.commit.load() != notes.size() + 1) return Problem("note out of order");
    notes.push_back(ViewNote{static_cast<journal::NoteCode>(r.code), std::string(r.text, r.text_bytes), r.a, r.b});
  }
}

// Everything that is named exists: stacks before events, modules before stacks, threads before events.
void JournalView::CheckReferences() {
  std::set<std::pair<std::uint32_t, std::uint64_t>> sequences;
  for (const ViewEvent& event : events) {
    if (!sequences.insert({event.chain, event.sequence}).second) Problem("two events with one sequence number");
    if (event.stack != 0 && stacks.count(event.stack) == 0) Problem("an event names a stack that isn't there");
    if (event.thread > threads.size()) Problem("an event names a thread that isn't there");
  }
  std::set<std::uint64_t> ids;
  for (const ViewBlock& block : live) {
    if (!ids.insert(block.allocation_id).second) Problem("two live blocks with one id");
    if (block.stack != 0 && stacks.count(block.stack) == 0) Problem("a block names a stack that isn't there");
  }
  for (const auto& [id, stack] : stacks) {
    for (std::uint64_t word : stack.words) {
      if ((word >> journal::kModuleShift) > modules.size()) Problem("a stack names a module that isn't there");
    }
  }
}

}  // namespace cuheap::testing
