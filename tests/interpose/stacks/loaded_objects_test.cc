#include "interpose/stacks/loaded_objects.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "interpose/stacks/module_table.h"

namespace cuheap::stacks {
namespace {

std::uint64_t AddressIn(const char* symbol) { return reinterpret_cast<std::uint64_t>(dlsym(RTLD_DEFAULT, symbol)); }

TEST(LoadedObjectsTest, TheLoadersOwnFinderIsFoundWhereThereIsOne) {
  EXPECT_EQ(HasLockFreeFinder(), dlsym(RTLD_DEFAULT, "_dl_find_object") != nullptr);
}

TEST(LoadedObjectsTest, BothWaysFindTheSame) {
  if (!HasLockFreeFinder()) GTEST_SKIP() << "this C library has one way only";
  const std::uint64_t own = reinterpret_cast<std::uint64_t>(&AddressIn);
  for (std::uint64_t address : {AddressIn("gnu_get_libc_version"), AddressIn("_ZNSo5flushEv"), own}) {
    LoadedObject first, second;
    ASSERT_TRUE(FindLoadedObject(address, first));
    ASSERT_TRUE(FindLoadedObjectByIteration(address, second));
    EXPECT_EQ(first.begin, second.begin);
    EXPECT_EQ(first.load_bias, second.load_bias);
    EXPECT_EQ(first.eh_frame_hdr, second.eh_frame_hdr);
    EXPECT_STREQ(first.name, second.name);
    EXPECT_LT(address, first.end);
    EXPECT_LT(address, second.end);
  }
}

TEST(LoadedObjectsTest, StackAndHeapAreNoObjects) {
  int local = 0;
  LoadedObject object;
  EXPECT_FALSE(FindLoadedObject(reinterpret_cast<std::uint64_t>(&local), object));
  EXPECT_FALSE(FindLoadedObjectByIteration(reinterpret_cast<std::uint64_t>(&local), object));
  EXPECT_FALSE(FindLoadedObject(16, object));
}

TEST(LoadedObjectsTest, PathOfTheProgramAndOfLibraries) {
  LoadedObject object;
  char path[512], expected[512];
  ASSERT_TRUE(FindLoadedObject(reinterpret_cast<std::uint64_t>(&AddressIn), object));
  const std::size_t length = PathOf(object, path, sizeof(path));
  const auto expected_length = readlink("/proc/self/exe", expected, sizeof(expected));
  EXPECT_EQ(std::string(path, length), std::string(expected, static_cast<std::size_t>(expected_length)));
  ASSERT_TRUE(FindLoadedObject(AddressIn("gnu_get_libc_version"), object));
  PathOf(object, path, sizeof(path));
  EXPECT_EQ(path[0], '/');
  EXPECT_NE(std::strstr(path, "libc.so.6"), nullptr);
  // A name that is relative is looked up in the process's mappings.
  LoadedObject relative = object;
  relative.name = "./libc.so.6";
  char again[512];
  PathOf(relative, again, sizeof(again));
  EXPECT_EQ(again[0], '/');
  EXPECT_NE(std::strstr(again, "libc"), nullptr);
  // Cut, with the full length told.
  char tiny[8];
  EXPECT_GT(PathOf(object, tiny, sizeof(tiny)), 7u);
  EXPECT_EQ(std::strlen(tiny), 7u);
}

TEST(LoadedObjectsTest, BuildIdIsReadelfs) {
  LoadedObject object;
  ASSERT_TRUE(FindLoadedObject(AddressIn("gnu_get_libc_version"), object));
  unsigned char id[kMaxBuildId];
  const std::size_t size = BuildIdOf(object, id);
  FILE* pipe = popen((std::string("LC_ALL=C readelf -n '") + object.name + "' 2>/dev/null").c_str(), "r");
  std::string expected;
  char line[512];
  while (pipe != nullptr && fgets(line, sizeof(line), pipe) != nullptr) {
    if (const char* at = std::strstr(line, "Build ID: ")) expected = std::string(at + 10, std::strcspn(at + 10, "\n"));
  }
  if (pipe != nullptr) pclose(pipe);
  if (expected.empty()) GTEST_SKIP() << "no readelf, or no build-id";
  std::string got;
  for (std::size_t i = 0; i < size; ++i) {
    char hex[3];
    snprintf(hex, sizeof(hex), "%02x", id[i]);
    got += hex;
  }
  EXPECT_EQ(got, expected);
}

TEST(ModuleRoleTest, ByFileNameInAnyVersion) {
  EXPECT_EQ(RoleOfPath("/x/torch/lib/libc10_cuda.so"), ModuleRole::kPyTorch);
  EXPECT_EQ(RoleOfPath("libcudart.so.13"), ModuleRole::kRuntime);
  EXPECT_EQ(RoleOfPath("/x/libcudart-d0da41ae.so.11.0"), ModuleRole::kRuntime);
  EXPECT_EQ(RoleOfPath("/usr/lib/libcuda.so.580.65"), ModuleRole::kRuntime);
  EXPECT_EQ(RoleOfPath("/libc10_cuda/libother.so"), ModuleRole::kOther);
  EXPECT_EQ(RoleOfPath("/usr/lib/libcudadevrt.so"), ModuleRole::kOther);
  EXPECT_EQ(RoleOfPath("/x/libc10.so"), ModuleRole::kOther);
  EXPECT_EQ(RoleOfPath(""), ModuleRole::kOther);
}

}  // namespace
}  // namespace cuheap::stacks
