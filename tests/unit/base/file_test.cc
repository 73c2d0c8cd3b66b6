#include "base/file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/cache.h"
#include "base/error.h"
#include "base/settings.h"

using namespace tg;
namespace fs = std::filesystem;

namespace {
class Folder : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tg-base-XXXXXX";
    dir = mkdtemp(name);
  }
  void TearDown() override { fs::remove_all(dir); }
  i64 entries() { return std::distance(fs::directory_iterator(dir), fs::directory_iterator()); }
  std::string dir;
};
std::string message(auto fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
std::string text(const MappedFile& f) { return {reinterpret_cast<const char*>(f.bytes().data()), f.bytes().size()}; }
}  // namespace

TEST_F(Folder, WrittenFileReadsBack) {
  write_file(dir + "/a", "hello");
  EXPECT_EQ(text(MappedFile(dir + "/a")), "hello");
  EXPECT_EQ(entries(), 1);
}
TEST_F(Folder, EmptyFileMaps) {
  write_file(dir + "/a", "");
  EXPECT_EQ(MappedFile(dir + "/a").bytes().size(), 0u);
}
TEST_F(Folder, UncommittedOutputLeavesTheOldFileAndNothingElse) {
  write_file(dir + "/a", "old");
  {
    OutputFile f(dir + "/a");
    f.write("new");
  }
  EXPECT_EQ(text(MappedFile(dir + "/a")), "old");
  EXPECT_EQ(entries(), 1);
}
TEST_F(Folder, OutputCanBePaddedAndPatched) {
  OutputFile f(dir + "/a");
  f.write("abc");
  f.pad_to(8);
  EXPECT_EQ(f.offset(), 8u);
  f.write("d");
  f.write_at(0, std::span(reinterpret_cast<const u8*>("X"), 1));
  f.commit();
  EXPECT_EQ(text(MappedFile(dir + "/a")), std::string("Xbc\0\0\0\0\0d", 9));
}
TEST_F(Folder, ASymbolicLinkIsFollowed) {
  write_file(dir + "/real", "old");
  fs::create_symlink("real", dir + "/link");
  write_file(dir + "/link", "new");
  EXPECT_TRUE(fs::is_symlink(dir + "/link"));
  EXPECT_EQ(text(MappedFile(dir + "/real")), "new");
}
TEST_F(Folder, ErrorsNamePathAndReason) {
  EXPECT_EQ(message([&] { MappedFile f(dir + "/none"); }), dir + "/none: cannot be read: No such file or directory");
  EXPECT_EQ(message([&] { MappedFile f(dir); }), dir + ": cannot be read: it is a folder");
  EXPECT_EQ(message([&] { OutputFile f(dir + "/no/x"); }), dir + "/no/x: cannot be written: the folder " + dir + "/no does not exist; create it first");
  EXPECT_EQ(message([&] { OutputFile f(dir); }), dir + ": cannot be written: it is a folder; name a file in it");
  EXPECT_EQ(message([] { OutputFile f("/dev/null"); }), "/dev/null: cannot be written: it is not a regular file");
}
TEST_F(Folder, CacheKeepsValuesPerTable) {
  Context c{{settings::CACHEDB, dir + "/sub/cache.db"}};
  std::vector<u8> v{1, 2, 3};
  EXPECT_FALSE(cache::get("binary", digest("k")));
  cache::put("binary", digest("k"), v);
  EXPECT_EQ(cache::get("binary", digest("k")), v);
  EXPECT_FALSE(cache::get("schedule", digest("k")));
  EXPECT_FALSE(cache::get("binary", digest("other")));
  cache::put("binary", digest("k"), {});
  EXPECT_EQ(cache::get("binary", digest("k")), std::vector<u8>{});
}
TEST_F(Folder, ABrokenCacheIsAWarningOnly) {
  write_file(dir + "/cache.db", std::string(5000, 'x'));
  Context c{{settings::CACHEDB, dir + "/cache.db"}};
  testing::internal::CaptureStderr();
  cache::put("binary", digest("k"), std::vector<u8>{1});
  EXPECT_FALSE(cache::get("binary", digest("k")));
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("warning: cache " + dir + "/cache.db cannot be opened"), said.npos);
  EXPECT_EQ(said.find("warning", said.find("warning") + 1), said.npos) << "said more than once: " << said;
}
