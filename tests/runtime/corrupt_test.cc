// Hostile bundles never crash the reader: truncated, bit-flipped, and flipped with all digests made right again, so that the checks behind
// the digests are met as well. Fixed seed; what opens is not run, since a changed bundle is other code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "base/error.h"
#include "formats/bundle_generated.h"
#include "formats/checksum.h"
#include "formats/header.h"
#include "sample.h"

// A hostile bundle may ask for any amount of memory: the sanitizer shall answer as malloc does.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace sample {
namespace {

struct Case {
  std::string name;
  std::vector<u8> bytes;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  BundleDesc big = control();
  big.portable = Portable{{1, 2, 3, 4}, {{0, {5, 6, 7}}}};
  big.provenance.settings = {{"BEAM", "0"}};
  std::vector<u8> x(32), y(32), z(16);
  big.tests.push_back({"t", {{Bytes::own(x), {8}}}, {{Bytes::own(y), {8}}, {Bytes::own(z), {4}}}, 0, 0});
  BundleDesc derived = square_add(4);
  Form form;
  form.derived = true, form.bytes.size = 16;
  derived.constants[0].forms.push_back(form);
  Buffer b = buffer(BufferKind::Weight, 0, 0);
  b.form = 1;
  derived.variants[0].buffers.push_back(b);
  derived.variants[0].prepare = Block{{Batch{0, {Copy{3, 0, 4, 0, 16}}}}};  // no kernel: it would run at open, with damaged arguments
  for (auto& [name, d] :
       std::vector<std::pair<std::string, BundleDesc>>{{"control", big}, {"state", state()}, {"free", free_size()}, {"derived", derived}}) {
    std::string path = write(d, "corrupt.tgb");
    all.push_back({name, file_bytes(path)});
    remove(path.c_str());
  }
  return all;
}

// Bytes at a multiple of 64.
struct Aligned {
  u8* p;
  explicit Aligned(const std::vector<u8>& b) : p(static_cast<u8*>(aligned_alloc(64, (b.size() + 63) / 64 * 64 + 64))) {
    std::copy(b.begin(), b.end(), p);
  }
  ~Aligned() { free(p); }
};

// Opens as a model and asks it everything; false if it was refused. A refusal must have words.
bool open_and_ask(const std::vector<u8>& bytes, uint32_t inspect) {
  Aligned a(bytes);
  tgb_options o = {};
  o.size = sizeof o, o.inspect = inspect, o.threads = 1;
  tgb_model* m = nullptr;
  tgb_status s = tgb_open_memory(a.p, bytes.size(), &o, &m);
  if (s != TGB_OK) {
    EXPECT_NE(std::string(tgb_message(nullptr)), "");
    return false;
  }
  for (uint32_t i = 0; i < tgb_input_count(m); i++) {
    tgb_signature x = {};
    x.size = sizeof x;
    EXPECT_EQ(tgb_input(m, i, &x), TGB_OK);
    for (uint32_t k = 0; k < x.rank; k++) EXPECT_TRUE(!x.vars[k] || *x.vars[k] || true);
  }
  for (uint32_t i = 0; i < tgb_variant_count(m); i++) {
    tgb_variant_info v = {};
    v.size = sizeof v;
    EXPECT_EQ(tgb_variant(m, i, &v), TGB_OK);
  }
  tgb_provenance p = {};
  p.size = sizeof p;
  EXPECT_EQ(tgb_about(m, &p), TGB_OK);
  tgb_check(m);
  tgb_close(m);
  return true;
}

void read_as_compiler(const std::vector<u8>& bytes) {
  std::string path = temp_path("corrupt_read.tgb");
  FILE* f = fopen(path.c_str(), "wb");
  fwrite(bytes.data(), 1, bytes.size(), f);
  fclose(f);
  try {
    read_bundle(path);
  } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find(path), std::string::npos); }
  remove(path.c_str());
}

void sign_again(std::vector<u8>& bytes) {
  tgf::Header h;
  if (bytes.size() < sizeof h) return;
  memcpy(&h, bytes.data(), sizeof h);
  memcpy(h.magic, tgf::kMagic, sizeof h.magic);
  h.version = 1, h.min_runtime = 1, h.meta_offset = sizeof h, h.file_bytes = bytes.size();
  if (h.meta_bytes > bytes.size() - sizeof h) h.meta_bytes = bytes.size() - sizeof h;
  h.meta_digest = tgf::checksum(bytes.data() + sizeof h, h.meta_bytes);
  h.digest = tgf::checksum(&h, sizeof h - 8);
  memcpy(bytes.data(), &h, sizeof h);
}

int scale() {  // mutations a case; the long run is by hand
  const char* s = getenv("TGB_MUTATIONS");
  return s ? atoi(s) : 1000;
}

TEST(Corrupt, IntactOnesOpen) {
  for (const Case& c : cases()) {
    EXPECT_TRUE(open_and_ask(c.bytes, 0)) << c.name << ": " << tgb_message(nullptr);
    std::vector<u8> again = c.bytes;
    sign_again(again);
    EXPECT_EQ(again, c.bytes) << c.name;
  }
}

TEST(Corrupt, TruncatedIsRefused) {
  for (const Case& c : cases())
    for (size_t n = 0; n < c.bytes.size(); n += n < 256 ? 1 : c.bytes.size() / 97) {
      std::vector<u8> cut(c.bytes.begin(), c.bytes.begin() + long(n));
      EXPECT_FALSE(open_and_ask(cut, 1)) << c.name << " cut to " << n;
    }
}

TEST(Corrupt, FlippedBitsAreRefused) {
  std::mt19937 random(1);
  for (const Case& c : cases()) {
    tgf::Header h;
    memcpy(&h, c.bytes.data(), sizeof h);
    for (int i = 0; i < scale(); i++) {
      std::vector<u8> b = c.bytes;
      size_t at = random() % (sizeof h + h.meta_bytes);
      b[at] ^= u8(1u << random() % 8);
      EXPECT_FALSE(open_and_ask(b, 1)) << c.name << " byte " << at;
    }
  }
}

TEST(Corrupt, SignedAgainNeverCrashes) {
  std::mt19937 random(2);
  int opened = 0, refused = 0;
  for (const Case& c : cases()) {
    tgf::Header h;
    memcpy(&h, c.bytes.data(), sizeof h);
    for (int i = 0; i < scale(); i++) {
      std::vector<u8> b = c.bytes;
      for (u32 k = 0, n = 1 + random() % 4; k < n; k++) {
        u8* p = &b[sizeof h + random() % h.meta_bytes];
        switch (random() % 4) {
          case 0: *p ^= u8(1u << random() % 8); break;
          case 1: *p = u8(random()); break;
          case 2: *p = random() % 2 ? 0xff : 0x7f; break;
          default: {
            u32 v = random() % 2 ? u32(random()) : u32(random() % 64);
            memcpy(p, &v, std::min<size_t>(4, size_t(&b[sizeof h + h.meta_bytes - 1] - p)));
          }
        }
      }
      if (random() % 16 == 0) b.resize(sizeof h + random() % (b.size() - sizeof h));
      sign_again(b);
      (open_and_ask(b, 0) ? opened : refused)++;
      if (i % 16 == 0) read_as_compiler(b);
    }
  }
  EXPECT_GT(opened, 0);
  EXPECT_GT(refused, scale());
}

// Objects are code, but the loader still follows no wild offset of theirs.
TEST(Corrupt, DamagedObjectsNeverCrashTheLoader) {
  std::mt19937 random(3);
  std::vector<u8> object = file_bytes(KERNELS);
  for (int i = 0; i < scale(); i++) {
    BundleDesc d = state();
    std::vector<u8> o = object;
    for (u32 k = 0, n = 1 + random() % 6; k < n; k++) {
      size_t at = random() % 2   ? random() % o.size()
                  : random() % 2 ? random() % 64
                                 : o.size() - 1 - random() % std::min<size_t>(o.size(), 2000);
      o[at] = random() % 2 ? u8(random()) : u8(o[at] ^ (1u << random() % 8));
    }
    if (random() % 8 == 0) o.resize(random() % o.size());
    d.objects[0] = Bytes::own(o);
    std::string path = write(d, "object.tgb");
    open_and_ask(file_bytes(path), 0);
    remove(path.c_str());
  }
}

}  // namespace
}  // namespace sample
