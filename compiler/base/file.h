// Files read by mapping and written whole or not at all.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tg {

// A file's bytes, mapped read-only for the life of this object. Opening fails with an Error that names the file and the reason.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& o) noexcept : data_(o.data_), bytes_(o.bytes_) { o.data_ = nullptr, o.bytes_ = 0; }
  MappedFile& operator=(MappedFile&&) = delete;
  std::span<const u8> bytes() const { return {data_, bytes_}; }

 private:
  const u8* data_ = nullptr;
  size_t bytes_ = 0;
};

// Says early, before any work, that `path` cannot be written: its folder is missing, it is a folder, a device, or not ours to write.
void check_output_path(const std::string& path);

// A new file that appears under its name at commit(), complete, replacing what was there; without commit nothing remains. Until then the
// bytes are in a file beside it (so that the last step is a rename). A symbolic link at `path` is followed. Errors name the path.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void write(std::span<const u8> bytes);  // at the end
  void write(std::string_view text) { write({reinterpret_cast<const u8*>(text.data()), text.size()}); }
  void write_at(u64 offset, std::span<const u8> bytes);
  u64 offset() const { return offset_; }  // where write() goes next
  void pad_to(u64 multiple);              // zeros up to the next multiple
  void commit();

 private:
  std::string path_, temp_;
  int fd_ = -1, slot_ = -1;
  u64 offset_ = 0;
};

void write_file(const std::string& path, std::span<const u8> bytes);
void write_file(const std::string& path, std::string_view text);

// Unlinks the temporary files of OutputFiles that are open: for a signal handler, which may call it safely.
void remove_unfinished_outputs();

}  // namespace tg
