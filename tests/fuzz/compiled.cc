#include "compiled.h"

#include <cstdlib>

#include "backend/backend.h"
#include "base/error.h"
#include "runtime-lite/backend/cpu.h"

namespace tg::fuzz {

const Target& host() {
  static const Target t = [] {
    Result<Target> r = cpu_target("native", "LLVM");
    if (!r) fail(r.why());
    return *r;
  }();
  return t;
}

// Guards of 64 bytes around each buffer show a store outside; the last one is as long as a vector that reads past the end.
void run_compiled(std::span<const UOp> list, i64 tasks, const Target& target, std::vector<Values>& buffers, std::span<const i64> ints) {
  Result<std::vector<u8>> object = compile_program(list, "kernel", target);
  if (!object) fail(object.why());
  tgb::Memory memory{[](void*, size_t n, size_t align) { return std::aligned_alloc(align, (n + align - 1) / align * align); }, [](void*, void* p) { std::free(p); }, nullptr};
  tgb::Object o{object->data(), object->size(), 0};
  tgb::Entry entry{0, "kernel", nullptr};
  tgb::Image image;
  char error[256];
  if (tgb::load_objects(memory, &o, 1, &entry, 1, &image, error, sizeof error) != TGB_OK) fail("load: ", std::string(error));
  constexpr size_t kGuard = 64;
  std::vector<std::vector<u8>> bytes;
  std::vector<void*> args;
  for (const Values& v : buffers) {
    std::vector<u8> b = encode(v);
    bytes.emplace_back(b.size() + 2 * kGuard + 64, u8(0xa5));
    u8* p = bytes.back().data() + kGuard;
    p += (64 - reinterpret_cast<std::uintptr_t>(p) % 64) % 64;
    std::copy(b.begin(), b.end(), p);
    args.push_back(p);
  }
  for (i64 t = tasks; t-- > 0;) reinterpret_cast<tgb::Kernel>(entry.kernel)(args.data(), ints.data(), t);
  for (size_t i = 0; i < buffers.size(); i++) {
    u8* p = static_cast<u8*>(args[i]);
    size_t n = size_t(byte_size(buffers[i].dtype.kind, buffers[i].elems()));
    for (u8* g = bytes[i].data(); g < bytes[i].data() + bytes[i].size(); g++)
      if ((g < p || g >= p + n) && *g != 0xa5) fail("byte ", g - p, " of buffer ", i, ", which has ", n, ", is written");
    buffers[i] = decode(buffers[i].dtype, buffers[i].dims, std::span<const u8>(p, n));
  }
  tgb::unload_objects(image);
}

}  // namespace tg::fuzz
