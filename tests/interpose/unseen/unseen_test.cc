// The parts of the self-check: the list of mapped files, and reading memory that may not be there. What it finds is
// tested by programs (tests/interpose/roads/seen_test.py).
#include "interpose/unseen/unseen.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "interpose/unseen/mapped_files.h"
#include "interpose/unseen/own_memory_reader.h"

namespace cuheap::unseen {
namespace {

TEST(MappedFiles, JoinsThePartsOfAFile) {
  const auto files = std::make_unique<MappedFiles>();
  for (const char* line : {
           "1000-2000 r--p 00000000 08:01 7 /lib/libone.so",
           "2000-5000 r-xp 00001000 08:01 7 /lib/libone.so",
           "5000-6000 rw-p 00004000 08:01 7 /lib/libone.so",
           "6000-9000 rw-p 00000000 00:00 0 ",
           "a000-b000 r--p 00000000 08:01 8 /a folder/lib two.so",
           "b000-c000 rw-p 00001000 08:01 8 /a folder/lib two.so",
           "c000-d000 rw-p 00000000 00:00 0 [heap]",
       }) {
    files->AddLine(line);
  }
  ASSERT_EQ(files->size(), 2U);
  EXPECT_EQ((*files)[0].begin, 0x1000U);
  EXPECT_EQ((*files)[0].end, 0x6000U);
  EXPECT_STREQ((*files)[1].path, "/a folder/lib two.so");
  EXPECT_EQ((*files)[1].end, 0xc000U);
}

TEST(MappedFiles, AFileThatIsLoadedTwiceIsThereTwice) {
  const auto files = std::make_unique<MappedFiles>();
  for (const char* line :
       {"1000-2000 r--p 00000000 08:01 7 /lib/libone.so", "2000-3000 rw-p 00001000 08:01 7 /lib/libone.so",
        "3000-4000 r--p 00000000 08:01 7 /lib/libone.so", "4000-5000 rw-p 00001000 08:01 7 /lib/libone.so"}) {
    files->AddLine(line);
  }
  ASSERT_EQ(files->size(), 2U);
  EXPECT_EQ((*files)[0].end, 0x3000U);
  EXPECT_EQ((*files)[1].begin, 0x3000U);
}

TEST(MappedFiles, DevicesAreCountedAndNonsenseIsPassedOver) {
  const auto files = std::make_unique<MappedFiles>();
  for (const char* line :
       {"", "-", "zz", "1000-2000", "1000-2000 r-", "1000-2000 r--p 00000000 00:05 9 /dev/nvidia-uvm",
        "1000-2000 r--p 00000000 00:05 9 /dev/nvidiactl", "1000-2000 ---p 00000000 08:01 9 /lib/x.so",
        "1000-2000 r--p 00003000 08:01 9 /lib/y.so"}) {
    files->AddLine(line);
  }
  EXPECT_EQ(files->size(), 0U);
  EXPECT_EQ(files->device_mappings(), 1U);
}

TEST(MappedFiles, TooManyAreCounted) {
  const auto files = std::make_unique<MappedFiles>();
  for (std::size_t i = 0; i < MappedFiles::kMaxFiles + 3; ++i) {
    files->AddLine(("1000-2000 r--p 00000000 08:01 7 /lib/lib" + std::to_string(i) + ".so").c_str());
  }
  EXPECT_EQ(files->size(), MappedFiles::kMaxFiles);
  EXPECT_EQ(files->left_out(), 3U);
}

TEST(MappedFiles, FindsTheFilesOfThisProcess) {
  const auto files = std::make_unique<MappedFiles>();
  ASSERT_TRUE(files->Read());
  Dl_info c_library{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&getpid), &c_library), 0);
  bool found = false;
  for (std::size_t i = 0; i < files->size(); ++i) {
    found = found || (*files)[i].begin == reinterpret_cast<std::uint64_t>(c_library.dli_fbase);
  }
  EXPECT_TRUE(found);
}

TEST(OwnMemoryReader, RefusesWhatIsNotThere) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::memset(pages, 0x5a, 2 * page);
  ASSERT_EQ(munmap(static_cast<char*>(pages) + page, page), 0);
  const auto begin = reinterpret_cast<std::uint64_t>(pages);
  OwnMemoryReader reader;
  char out[64] = {};
  EXPECT_EQ(reader.Read(begin, out, sizeof(out)), sizeof(out));
  EXPECT_EQ(out[63], 0x5a);
  EXPECT_EQ(reader.Read(begin + page - 16, out, sizeof(out)), 16U) << "up to the end of what there is";
  EXPECT_EQ(reader.Read(begin + page, out, sizeof(out)), 0U);
  EXPECT_EQ(reader.Read(8, out, sizeof(out)), 0U);
  std::uint64_t word = 0;
  EXPECT_TRUE(reader.ReadOne(begin, word));
  EXPECT_FALSE(reader.ReadOne(begin + page - 4, word));
  munmap(pages, page);
}

TEST(OwnMemoryReader, TellsPagesThatWereWritten) {
  constexpr std::size_t kPages = 600;  // more than are asked for at once
  void* pages = mmap(nullptr, kPages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  static_cast<char*>(pages)[3 * 4096] = 1;
  static_cast<char*>(pages)[599 * 4096] = 1;
  bool written[kPages] = {};
  OwnMemoryReader reader;
  reader.FindWritten(reinterpret_cast<std::uint64_t>(pages), written, kPages);
  EXPECT_TRUE(written[3]);
  EXPECT_TRUE(written[599]);
  EXPECT_TRUE(access("/proc/self/pagemap", R_OK) != 0 || !written[5]);
  munmap(pages, kPages * 4096);
}

TEST(Look, WithoutADriverNothingIsFound) {
  const auto findings = std::make_unique<Findings>();
  Surroundings surroundings;
  surroundings.ours = findings.get();
  surroundings.hooked = [](const char*) { return true; };
  Look(surroundings, 0, *findings);
  EXPECT_TRUE(findings->looked);
  EXPECT_FALSE(findings->driver_is_mapped);
  EXPECT_EQ(findings->library_count, 0U);
}

}  // namespace
}  // namespace cuheap::unseen
