// Follows the binary format (https://flatbuffers.dev/internals): a table begins with the signed distance back to its vtable, which holds
// its own size, the table's size and, for each field, where the field stands in the table, or 0.
#include "formats/verify.h"

#include <string.h>

#include "formats/header.h"

namespace tgf {

// A field is one of
//   1 4 8    a scalar of so many bytes
//   s S      a string; capitals are required
//   a b c    a vector of scalars of 1, 4, 8 bytes; A B C required
//   w        a vector of strings
//   t+X T+X  a table, required if T; X is the row of its type as a letter from 'A' on
//   v+X V+X  a vector of tables
//   x+X      a vector of unions: X counts as its type 1, the next row as type 2, and so on; takes two fields, the types and the values
// clang-format off
const char kTables[] =
  /* A */ "8a\0"                                // Expr
  /* B */ "S888\0"                              // Var
  /* C */ "Ss\0"                                // KeyValue
  /* D */ "TAs4\0"                              // Dim
  /* E */ "S1vD\0"                              // Signature
  /* F */ "ss184\0"                             // State
  /* G */ "118888\0"                            // Segment
  /* H */ "1s488\0"                             // Form
  /* I */ "s1cVH\0"                             // Constant
  /* J */ "Sssw\0"                              // Target
  /* K */ "S41488a44s\0"                        // Program
  /* L */ "TATA1\0"                             // Image
  /* M */ "11TAb4444tL\0"                       // Buffer
  /* N */ "4bvAvAbtAtA\0"                       // Launch
  /* O */ "4tA4tATA\0"                          // Copy
  /* P */ "4xN\0"                               // Batch
  /* Q */ "44tA\0"                              // ReadVar
  /* R */ "4TA\0"                               // SetVar
  /* S */ "TAtUtU\0"                            // If
  /* T */ "TATU8\0"                             // While
  /* U */ "xP\0"                                // Block
  /* V */ "488\0"                               // Bound
  /* W */ "BvVvMTUtU81s\0"                      // Variant
  /* X */ "44\0"                                // TargetKernels
  /* Y */ "4vX\0"                               // Portable
  /* Z */ "ssssvCs\0"                           // Provenance
  /* [ */ "488c\0"                              // TestTensor
  /* \ */ "sv[v[88\0"                           // TestVector
  /* ] */ "aaa\0"                               // Seal
  /* ^ */ "48vEvEvFvBvGvIvJvKvWtYtZv\\t]";    // Bundle
// clang-format on
const uint32_t kTableCount = 30;

namespace {

// How many types a union has whose first is this row: Step is N O, Command is P Q R S T.
uint32_t union_size(uint32_t first) { return first == 'N' - 'A' ? 2 : 5; }

class Verifier {
 public:
  Verifier(const uint8_t* bytes, size_t size) : bytes_(bytes), size_(size) {}
  bool root() {
    uint32_t at;
    return follow(0, &at) && table(at, kTableCount - 1);
  }

 private:
  template <class T>
  T load(size_t at) const {
    T v;
    memcpy(&v, bytes_ + at, sizeof v);
    return v;
  }
  // A value of `bytes` at `at`, aligned as the format wants.
  bool here(size_t at, size_t bytes) const { return at % bytes == 0 && at < size_ && bytes <= size_ - at; }
  bool follow(size_t at, uint32_t* to) const {
    if (!here(at, 4)) return false;
    uint32_t o = load<uint32_t>(at);
    if (o == 0 || o > INT32_MAX) return false;
    uint64_t target = at + o;
    *to = uint32_t(target);
    return target < size_;
  }
  bool vector(size_t at, size_t element, uint32_t* count) const {
    if (!here(at, 4)) return false;
    *count = load<uint32_t>(at);
    return (element < 8 || (at + 4) % element == 0) && *count <= (size_ - at - 4) / element;
  }
  bool string(size_t at) const {
    uint32_t n;
    return vector(at, 1, &n) && at + 4 + n < size_ && bytes_[at + 4 + n] == 0;
  }
  bool table(size_t at, uint32_t row);
  bool field(size_t at, char kind, uint32_t row, size_t types);

  const uint8_t* bytes_;
  size_t size_;
  uint32_t depth_ = 0, tables_ = 0;
};

// The content of one field at `at`. types: where the types of a vector of unions stand.
bool Verifier::field(size_t at, char kind, uint32_t row, size_t types) {
  if (kind < 'A') return here(at, size_t(kind - '0'));
  uint32_t to, n;
  if (!follow(at, &to)) return false;
  kind |= 32;
  if (kind == 't') return table(to, row);
  if (kind == 's') return string(to);
  size_t element = kind == 'a' ? 1 : kind == 'c' ? 8 : 4;
  if (!vector(to, element, &n)) return false;
  if (kind <= 'c') return true;
  uint32_t n_types = n;
  if (kind == 'x' && (!types || !vector(types, 1, &n_types) || n_types != n)) return false;
  for (uint32_t i = 0; i < n; i++) {
    size_t slot = to + 4 + 4 * size_t(i);
    uint32_t element_at;
    if (!follow(slot, &element_at)) return false;
    if (kind == 'w') {
      if (!string(element_at)) return false;
      continue;
    }
    uint32_t type = kind == 'x' ? bytes_[types + 4 + i] : 1;
    // A type that is not known is left to the reader, who does not look into it.
    if (type - 1 < (kind == 'x' ? union_size(row) : 1u) && !table(element_at, row + type - 1)) return false;
  }
  return true;
}

bool Verifier::table(size_t at, uint32_t row) {
  if (depth_ == kMaxDepth || ++tables_ > kMaxTables || !here(at, 4)) return false;
  uint64_t vtable = at - uint64_t(int64_t(load<int32_t>(at)));
  if (vtable >= size_ || !here(vtable, 2)) return false;
  uint32_t vsize = load<uint16_t>(vtable);
  if (vsize < 4 || vsize % 2 || vsize > size_ - vtable) return false;
  depth_++;
  uint32_t slot = 4;
  size_t types = 0;
  const char* f = kTables;
  for (uint32_t i = 0; i < row; i++) f += strlen(f) + 1;  // the most common types stand first
  for (; *f; f++) {
    char kind = *f;
    bool typed = strchr("tTvVx", kind) != nullptr;
    uint32_t of = typed ? uint32_t(*++f - 'A') : 0;
    if (kind == 'x') {  // its first field: the types
      uint32_t o = slot < vsize ? load<uint16_t>(vtable + slot) : 0, to = 0;
      if (o && !follow(at + o, &to)) return false;
      types = to;
      slot += 2;
    }
    uint32_t offset = slot < vsize ? load<uint16_t>(vtable + slot) : 0;
    slot += 2;
    if (!offset) {
      bool required = kind >= 'A' && kind <= 'Z';
      if (required || (kind == 'x' && types)) return false;
      continue;
    }
    if (!field(at + offset, kind, of, types)) return false;
  }
  depth_--;
  return true;
}

}  // namespace

bool verify_flatbuffer(const uint8_t* bytes, size_t size) {
  return size >= 16 && size <= INT32_MAX && !memcmp(bytes + 4, "TGB1", 4) && Verifier(bytes, size).root();
}

}  // namespace tgf
