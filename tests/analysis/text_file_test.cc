#include "analysis/text_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <thread>

namespace cuheap::analysis {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class NamedPipeTest : public testing::Test {
 protected:
  NamedPipeTest() {
    std::filesystem::remove(path_);
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
  }
  ~NamedPipeTest() override { std::filesystem::remove(path_); }

  std::string path_ = (std::filesystem::path(testing::TempDir()) / "cuheap named pipe").string();
};

TEST_F(NamedPipeTest, WithoutAWriterIsAnError) {
  const auto source = OpenTextFile(path_, milliseconds(50));
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(source.status().message()), HasSubstr("nobody has written to it"));
}

TEST_F(NamedPipeTest, IsReadToItsEnd) {
  std::thread writer([&] {
    const int descriptor = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(write(descriptor, "{\"a\"", 4), 4);
    std::this_thread::sleep_for(milliseconds(50));  // the reader waits now, although it did not at first
    EXPECT_EQ(write(descriptor, ": 1}", 4), 4);
    close(descriptor);
  });
  auto source = OpenTextFile(path_, std::chrono::seconds(60));
  std::string text;
  if (source.ok()) {
    std::array<char, 64> buffer;
    while (const std::size_t got = (*source)->Read(buffer.data(), buffer.size())) text.append(buffer.data(), got);
  }
  writer.join();
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(text, "{\"a\": 1}");
}

}  // namespace
}  // namespace cuheap::analysis
