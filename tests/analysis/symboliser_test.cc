#include "analysis/symboliser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/analysis/symboliser_fixture.h"

namespace cuheap::analysis {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;

__attribute__((noinline)) const void* Callee() { return __builtin_return_address(0); }

// The object that an address lies in, as the recorder would note it.
struct Loaded {
  std::uintptr_t address = 0;
  Module module;
};

std::string BuildIdOf(const dl_phdr_info& info) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type != PT_NOTE) continue;
    const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    const auto* end =
        reinterpret_cast<const ElfW(Nhdr)*>(reinterpret_cast<const char*>(note) + info.dlpi_phdr[i].p_memsz);
    while (note < end) {
      const char* name = reinterpret_cast<const char*>(note + 1);
      const auto* bytes = reinterpret_cast<const unsigned char*>(name + (note->n_namesz + 3) / 4 * 4);
      if (note->n_type == NT_GNU_BUILD_ID && std::string(name) == "GNU") {
        std::string hex;
        char two[3];
        for (unsigned at = 0; at < note->n_descsz; ++at) {
          std::snprintf(two, sizeof(two), "%02x", bytes[at]);
          hex += two;
        }
        return hex;
      }
      note = reinterpret_cast<const ElfW(Nhdr)*>(bytes + (note->n_descsz + 3) / 4 * 4);
    }
  }
  return "";
}

int Visit(dl_phdr_info* info, std::size_t, void* data) {
  auto& loaded = *static_cast<Loaded*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type != PT_LOAD || loaded.address < begin || loaded.address >= begin + header.p_memsz) continue;
    loaded.module = {info->dlpi_name, false, BuildIdOf(*info), info->dlpi_addr, begin, begin + header.p_memsz};
    return 1;
  }
  return 0;
}

Loaded Locate(const void* address) {
  Loaded loaded;
  loaded.address = reinterpret_cast<std::uintptr_t>(address);
  EXPECT_EQ(dl_iterate_phdr(Visit, &loaded), 1);
  return loaded;
}

// A snapshot with one stack of one raw frame.
Snapshot RawSnapshot(const Loaded& loaded) {
  Snapshot snapshot;
  snapshot.strings.push_back("not symbolised");
  snapshot.modules.push_back(loaded.module);
  Frame frame;
  frame.kind = FrameKind::kNative;
  frame.module = 1;
  frame.offset = loaded.address - loaded.module.load_bias;
  frame.reason = 1;
  snapshot.frames.push_back(frame);
  snapshot.stacks.push_back({{1}, false, false});
  return snapshot;
}

class SymboliserTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "symboliser XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    answer_ = symboliser_fixture::Outer(Callee);
    outer_ = Locate(answer_.address);
    plain_ = Locate(PlainFunction(Callee));
    ASSERT_THAT(outer_.module.build_id, testing::SizeIs(40));
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Runs objcopy on the fixture; the result's path.
  std::string Copy(const std::string& name, const std::string& options) const {
    const std::string path = (folder_ / name).string();
    fs::create_directories(fs::path(path).parent_path());
    const std::string command =
        std::string(CUHEAP_OBJCOPY) + " " + options + " '" + outer_.module.path + "' '" + path + "'";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return path;
  }
  std::string DebugRoot() const { return (folder_ / "debug").string(); }

  // The frames of the one stack, symbolised with another file in the fixture's place.
  std::vector<Frame> Symbolised(Loaded loaded, const std::string& path) {
    loaded.module.path = path;
    snapshot_ = RawSnapshot(loaded);
    Symbolise(snapshot_, {.debug_root = DebugRoot()});
    std::vector<Frame> frames;
    for (const std::uint32_t index : snapshot_.stacks.at(1).frames) frames.push_back(snapshot_.frames.at(index));
    return frames;
  }
  std::string Function(const Frame& frame) const { return snapshot_.strings.at(frame.function); }
  std::string File(const Frame& frame) const { return snapshot_.strings.at(frame.file); }
  std::string Reason(const Frame& frame) const { return snapshot_.strings.at(frame.reason); }
  // Nothing is known, for a reason.
  void ExpectRefused(const std::string& path, const std::string& reason) {
    const std::vector<Frame> frames = Symbolised(outer_, path);
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_EQ(frames[0].function, 0u) << Function(frames[0]);
    EXPECT_EQ(frames[0].line, 0u);
    EXPECT_THAT(Reason(frames[0]), HasSubstr(reason));
  }
  void ExpectOuterWithInlinedHelper(const std::vector<Frame>& frames) {
    ASSERT_EQ(frames.size(), 2u);
    EXPECT_EQ(Function(frames[0]), "symboliser_fixture::(anonymous namespace)::InlinedHelper");
    EXPECT_TRUE(frames[0].inlined);
    EXPECT_EQ(frames[0].line, static_cast<std::uint32_t>(answer_.inlined_line));
    EXPECT_EQ(Function(frames[1]), "symboliser_fixture::Outer(void const* (*)())");
    EXPECT_FALSE(frames[1].inlined);
    EXPECT_EQ(frames[1].line, static_cast<std::uint32_t>(answer_.caller_line));
    for (const Frame& frame : frames) {
      EXPECT_THAT(File(frame), EndsWith("/tests/analysis/symboliser_fixture.cc"));
      EXPECT_TRUE(fs::path(File(frame)).is_absolute()) << File(frame);
      EXPECT_EQ(Reason(frame), "");
      EXPECT_EQ(frame.kind, FrameKind::kNative);
      EXPECT_EQ(frame.module, 1u);
      EXPECT_EQ(frame.offset, outer_.address - outer_.module.load_bias);
    }
  }

  fs::path folder_;
  symboliser_fixture::Answer answer_;
  Loaded outer_, plain_;
  Snapshot snapshot_;
};

TEST_F(SymboliserTest, NamesFunctionFileAndLineOfEachInlinedFrame) {
  ExpectOuterWithInlinedHelper(Symbolised(outer_, outer_.module.path));
}

TEST_F(SymboliserTest, NamesAreNotMangledAndCFunctionsStayAsTheyAre) {
  const std::vector<Frame> frames = Symbolised(plain_, plain_.module.path);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(Function(frames[0]), "PlainFunction");
}

TEST_F(SymboliserTest, ASecondCallChangesNothing) {
  Symbolised(outer_, outer_.module.path);
  const Snapshot once = snapshot_;
  Symbolise(snapshot_, {.debug_root = DebugRoot()});
  EXPECT_EQ(snapshot_.frames, once.frames);
  EXPECT_EQ(snapshot_.stacks, once.stacks);
  EXPECT_EQ(snapshot_.strings, once.strings);
}

TEST_F(SymboliserTest, WithoutDebugInformationTheSymbolTableNamesTheFunction) {
  const std::vector<Frame> frames = Symbolised(outer_, Copy("lib.so", "--strip-all"));
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(Function(frames[0]), "symboliser_fixture::Outer(void const* (*)())");
  EXPECT_EQ(frames[0].file, 0u);
  EXPECT_THAT(Reason(frames[0]), HasSubstr("no line information"));
}

TEST_F(SymboliserTest, SeparateDebugFilesAreFoundByBuildId) {
  const std::string id = outer_.module.build_id;
  Copy("debug/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug", "--only-keep-debug");
  ExpectOuterWithInlinedHelper(Symbolised(outer_, Copy("lib.so", "--strip-all")));
}

TEST_F(SymboliserTest, SeparateDebugFilesAreFoundByDebugLink) {
  const std::string debug = Copy("lib.so.debug", "--only-keep-debug");
  const std::string stripped = Copy("lib.so", "--strip-all --add-gnu-debuglink='" + debug + "'");
  ExpectOuterWithInlinedHelper(Symbolised(outer_, stripped));
}

TEST_F(SymboliserTest, ADebugFileOfAnotherBuildIsNotUsed) {
  const std::string id = outer_.module.build_id;
  const fs::path place = folder_ / "debug/.build-id" / id.substr(0, 2) / (id.substr(2) + ".debug");
  fs::create_directories(place.parent_path());
  fs::copy_file("/proc/self/exe", place);
  const std::vector<Frame> frames = Symbolised(outer_, Copy("lib.so", "--strip-all"));
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].file, 0u);
}

TEST_F(SymboliserTest, AnotherBuildOfTheFileGivesNoNames) {
  Loaded other = outer_;
  other.module.build_id[0] = other.module.build_id[0] == '0' ? '1' : '0';
  outer_ = other;
  ExpectRefused(outer_.module.path, "another build");
  outer_.module.build_id.clear();
  ExpectRefused(outer_.module.path, "recorded was none");
  outer_ = Locate(answer_.address);
  ExpectRefused(Copy("lib.so", "--remove-section=.note.gnu.build-id"), "another build");
}

TEST_F(SymboliserTest, FilesThatCannotBeReadSayWhy) {
  ExpectRefused("/no/such/file.so", "No such file");
  ExpectRefused(folder_.string(), "not a regular file");
  ExpectRefused("[vdso]", "kernel");
  ExpectRefused("linux-vdso.so.1", "kernel");
  ExpectRefused("/tmp/lib.so (deleted)", "deleted");
  const std::string text = (folder_ / "text.so").string();
  std::ofstream(text) << "no library at all";
  ExpectRefused(text, "");
  const std::string cut = Copy("cut.so", "--strip-debug");
  fs::resize_file(cut, 100);
  ExpectRefused(cut, "");
  EXPECT_NE(Reason(snapshot_.frames.at(snapshot_.stacks.at(1).frames.at(0))), "");
}

TEST_F(SymboliserTest, AnAddressOutsideEveryFunctionSaysSo) {
  outer_.address = outer_.module.load_bias + 8;  // in the ELF header
  ExpectRefused(outer_.module.path, "no symbol");
  outer_.address = outer_.module.load_bias + (std::uintptr_t{1} << 46);
  ExpectRefused(outer_.module.path, "no symbol");
}

TEST_F(SymboliserTest, APathThatWasCutIsNotGuessed) {
  outer_.module.path_cut = true;
  ExpectRefused(outer_.module.path, "longer than the journal holds");
}

TEST_F(SymboliserTest, TheProgramItselfIsKnownByItsExecutable) {
  Loaded self = Locate(reinterpret_cast<const void*>(&Callee));
  self.address += 1;
  self.module.path.clear();
  snapshot_ = RawSnapshot(self);
  snapshot_.process.executable = fs::read_symlink("/proc/self/exe");
  Symbolise(snapshot_, {.debug_root = DebugRoot()});
  const Frame& frame = snapshot_.frames.at(snapshot_.stacks.at(1).frames.back());
  EXPECT_THAT(Function(frame), HasSubstr("Callee"));
}

TEST_F(SymboliserTest, OtherFramesStayAndKeepTheirPlace) {
  snapshot_ = RawSnapshot(outer_);
  snapshot_.strings.insert(snapshot_.strings.end(), {"train_step", "train.py", "generated code"});
  snapshot_.frames.push_back({FrameKind::kPython, 2, 3, 12, 0, 0, false, 0});
  snapshot_.frames.push_back({FrameKind::kNative, 0, 0, 0, 0, 0x1234, false, 4});
  snapshot_.stacks.push_back({{3, 1, 2}, true, false});
  Symbolise(snapshot_, {.debug_root = DebugRoot()});
  const Stack& stack = snapshot_.stacks.at(2);
  ASSERT_EQ(stack.frames.size(), 4u);
  EXPECT_TRUE(stack.truncated);
  EXPECT_EQ(Reason(snapshot_.frames.at(stack.frames[0])), "generated code");
  EXPECT_THAT(Function(snapshot_.frames.at(stack.frames[1])), HasSubstr("InlinedHelper"));
  EXPECT_THAT(Function(snapshot_.frames.at(stack.frames[2])), HasSubstr("Outer"));
  EXPECT_EQ(Function(snapshot_.frames.at(stack.frames[3])), "train_step");
}

}  // namespace
}  // namespace cuheap::analysis
