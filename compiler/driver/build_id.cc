#include "driver/build_id.h"

#include <link.h>

#include <cstring>

#include "base/types.h"

namespace tg::driver {
namespace {

// Notes are (name length, contents length, type), then name and contents, each padded to 4 bytes.
// https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.pheader.html#note_section
std::string id_in(const u8* p, size_t bytes) {
  while (bytes >= 12) {
    u32 head[3];
    std::memcpy(head, p, sizeof head);
    size_t name = (size_t(head[0]) + 3) / 4 * 4, contents = (size_t(head[1]) + 3) / 4 * 4;
    if (bytes - 12 < name || bytes - 12 - name < contents) return {};
    if (head[2] == NT_GNU_BUILD_ID && head[0] == 4 && !std::memcmp(p + 12, "GNU", 4)) {
      std::string hex;
      for (u32 i = 0; i < head[1]; i++) {
        u8 b = p[12 + name + i];
        hex += "0123456789abcdef"[b >> 4], hex += "0123456789abcdef"[b & 15];
      }
      return hex;
    }
    p += 12 + name + contents, bytes -= 12 + name + contents;
  }
  return {};
}

// The first object is the program itself.
int visit(dl_phdr_info* info, size_t, void* out) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)& h = info->dlpi_phdr[i];
    if (h.p_type != PT_NOTE) continue;
    std::string id = id_in(reinterpret_cast<const u8*>(info->dlpi_addr + h.p_vaddr), h.p_memsz);
    if (!id.empty()) *static_cast<std::string*>(out) = id;
  }
  return 1;
}

}  // namespace

std::string build_id() {
  static const std::string id = [] {
    std::string s;
    dl_iterate_phdr(visit, &s);
    return s.empty() ? std::string(TGAOT_VERSION) : s;
  }();
  return id;
}

}  // namespace tg::driver
