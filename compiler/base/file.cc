#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tg {
namespace {

// Temporary names by slot, for the signal handler: fixed storage, a flag that is set after the name is complete.
struct Unfinished {
  std::atomic<bool> taken{false}, named{false};
  char name[PATH_MAX];
};
Unfinished g_unfinished[8];

int take_slot(const std::string& temp) {
  for (int i = 0; i < 8; ++i) {
    Unfinished& u = g_unfinished[i];
    if (u.taken.exchange(true)) continue;
    if (temp.size() < sizeof u.name) {
      std::memcpy(u.name, temp.c_str(), temp.size() + 1);
      u.named = true;
    }
    return i;
  }
  return -1;  // more than 8 at once: still removed by ~OutputFile, only not by a signal
}

std::string folder_of(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string follow_links(const std::string& path) {
  char buf[PATH_MAX];
  return realpath(path.c_str(), buf) ? std::string(buf) : path;
}

const char* reason() { return std::strerror(errno); }

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe that nobody writes would keep us waiting
  if (fd < 0) fail(path, ": cannot be read: ", reason());
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    std::string why = S_ISDIR(st.st_mode) ? "it is a folder" : "it is not a regular file";
    close(fd);
    fail(path, ": cannot be read: ", why);
  }
  bytes_ = size_t(st.st_size);
  if (bytes_) {
    void* p = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
    int e = errno;
    close(fd);
    if (p == MAP_FAILED) fail(path, ": cannot be mapped: ", std::strerror(e));
    data_ = static_cast<const u8*>(p);
  } else {
    close(fd);
  }
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<u8*>(data_), bytes_);
}

void check_output_path(const std::string& path) {
  if (path.empty()) fail("output: the file's name is empty");
  std::string real = follow_links(path), folder = folder_of(real);
  struct stat st;
  if (stat(real.c_str(), &st) == 0) {
    if (S_ISDIR(st.st_mode)) fail(path, ": cannot be written: it is a folder; name a file in it");
    // A rename would replace a device node such as /dev/null by a file.
    if (!S_ISREG(st.st_mode)) fail(path, ": cannot be written: it is not a regular file");
  }
  if (stat(folder.c_str(), &st) != 0 || !S_ISDIR(st.st_mode))
    fail(path, ": cannot be written: the folder ", folder, " does not exist; create it first");
  if (access(folder.c_str(), W_OK) != 0) fail(path, ": cannot be written: no permission to write in the folder ", folder);
}

OutputFile::OutputFile(const std::string& path) : path_(follow_links(path)) {
  check_output_path(path);
  static std::atomic<int> serial{0};
  size_t slash = path_.rfind('/');
  std::string base = slash == path_.npos ? path_ : path_.substr(slash + 1);
  temp_ = str(folder_of(path_), "/.", base.substr(0, 200), ".", getpid(), ".", serial++, ".tmp");
  slot_ = take_slot(temp_);
  fd_ = open(temp_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    int e = errno;
    if (slot_ >= 0) g_unfinished[slot_].named = false, g_unfinished[slot_].taken = false;
    fail(path, ": cannot be written: ", std::strerror(e));
  }
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temp_.c_str());
  if (slot_ >= 0) g_unfinished[slot_].named = false, g_unfinished[slot_].taken = false;
}

void OutputFile::write(std::span<const u8> bytes) {
  write_at(offset_, bytes);
  offset_ += bytes.size();
}

void OutputFile::write_at(u64 offset, std::span<const u8> bytes) {
  while (!bytes.empty()) {
    ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), off_t(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(path_, ": cannot be written: ", reason());
    bytes = bytes.subspan(size_t(n));
    offset += u64(n);
  }
}

void OutputFile::pad_to(u64 multiple) {
  u64 end = (offset_ + multiple - 1) / multiple * multiple;
  if (end == offset_) return;
  if (ftruncate(fd_, off_t(end)) != 0) fail(path_, ": cannot be written: ", reason());
  offset_ = end;
}

void OutputFile::commit() {
  TG_CHECK(fd_ >= 0, "commit of ", path_, " twice");
  if (close(std::exchange(fd_, -1)) != 0 || rename(temp_.c_str(), path_.c_str()) != 0) {
    int e = errno;
    unlink(temp_.c_str());
    if (slot_ >= 0) g_unfinished[slot_].named = false, g_unfinished[slot_].taken = false;
    fail(path_, ": cannot be written: ", std::strerror(e));
  }
  if (slot_ >= 0) g_unfinished[slot_].named = false, g_unfinished[slot_].taken = false;
}

void write_file(const std::string& path, std::span<const u8> bytes) {
  OutputFile f(path);
  f.write(bytes);
  f.commit();
}

void write_file(const std::string& path, std::string_view text) {
  write_file(path, std::span(reinterpret_cast<const u8*>(text.data()), text.size()));
}

void remove_unfinished_outputs() {
  for (Unfinished& u : g_unfinished)
    if (u.named) unlink(u.name);
}

}  // namespace tg
