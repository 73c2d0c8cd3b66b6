// Layout: "TGU1", the names of the ops and of the kinds that occur, the nodes, the roots. Numbers are LEB128, signed ones zigzag; a source
// is how many nodes it stands before its user. The bits of a float CONST are eight bytes.
#include "ir/binary.h"

#include <cstring>

#include "base/error.h"

namespace tg {
namespace {

constexpr char kMagic[4] = {'T', 'G', 'U', '1'};

struct Out {
  std::vector<u8> bytes;
  void raw(const void* p, size_t n) { bytes.insert(bytes.end(), static_cast<const u8*>(p), static_cast<const u8*>(p) + n); }
  void num(u64 v) {
    for (; v >= 128; v >>= 7) bytes.push_back(u8(v) | 128);
    bytes.push_back(u8(v));
  }
  void sig(i64 v) { num(u64(v) << 1 ^ u64(v >> 63)); }
  void text(std::string_view s) { num(s.size()), raw(s.data(), s.size()); }
};

[[noreturn]] void damaged() { fail("the graph is damaged: it does not read as UOps; write the bundle anew from the model"); }

struct In {
  std::span<const u8> bytes;
  void raw(void* p, size_t n) {
    if (n > bytes.size()) damaged();
    std::memcpy(p, bytes.data(), n);
    bytes = bytes.subspan(n);
  }
  u64 num() {
    u64 v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      u8 b;
      raw(&b, 1);
      v |= u64(b & 127) << shift;
      if (b < 128) return v;
    }
    damaged();
  }
  i64 sig() {
    u64 v = num();
    return i64(v >> 1 ^ (0 - (v & 1)));
  }
  // A count of things of which each takes a byte at least.
  size_t count() {
    u64 n = num();
    if (n > bytes.size()) damaged();
    return size_t(n);
  }
  std::string text() {
    std::string s(count(), 0);
    raw(s.data(), s.size());
    return s;
  }
};

bool float_bits(UOp u) { return is_float(u.dtype()); }

}  // namespace

std::vector<u8> write_binary(std::span<const UOp> roots) {
  std::vector<UOp> nodes = toposort(roots);
  Memo<u32> number;
  std::vector<int> op_at(kOps, -1), kind_at(256, -1);
  std::vector<std::string_view> ops, kinds;
  for (u32 i = 0; i < nodes.size(); i++) {
    UOp u = nodes[i];
    number[u] = i;
    if (op_at[int(u.op())] < 0) op_at[int(u.op())] = int(ops.size()), ops.push_back(info(u.op()).name);
    if (kind_at[int(u.dtype().kind)] < 0) kind_at[int(u.dtype().kind)] = int(kinds.size()), kinds.push_back(name(u.dtype().kind));
  }
  Out o;
  o.raw(kMagic, sizeof kMagic);
  for (auto* names : {&ops, &kinds}) {
    o.num(names->size());
    for (std::string_view s : *names) o.text(s);
  }
  o.num(nodes.size());
  for (u32 i = 0; i < nodes.size(); i++) {
    UOp u = nodes[i];
    o.num(u64(op_at[int(u.op())])), o.num(u64(kind_at[int(u.dtype().kind)])), o.num(u.dtype().lanes), o.num(u.nsrc());
    for (UOp s : u.src()) o.num(i - number[s]);
    switch (info(u.op()).arg) {
      case ArgKind::None: break;
      case ArgKind::Int: o.sig(u.arg_int()); break;
      case ArgKind::Bits: {
        u64 b = u.arg_bits();
        float_bits(u) ? o.raw(&b, 8) : o.sig(i64(b));
        break;
      }
      case ArgKind::Ints:
        o.num(u.arg_ints().size());
        for (i64 v : u.arg_ints()) o.sig(v);
        break;
      case ArgKind::Str: o.text(u.arg_str()); break;
    }
  }
  o.num(roots.size());
  for (UOp r : roots) o.num(number[r]);
  return std::move(o.bytes);
}

std::vector<UOp> read_binary(std::span<const u8> bytes) {
  In in{bytes};
  char magic[4];
  in.raw(magic, sizeof magic);
  if (std::memcmp(magic, kMagic, sizeof magic)) damaged();
  std::vector<Op> ops(in.count());
  for (Op& o : ops) {
    std::string s = in.text();
    if (!op_from_name(s, &o))
      fail("the graph has an op ", s, ", which this version does not know; use the version that wrote it, or a later one");
  }
  std::vector<Kind> kinds(in.count());
  for (Kind& k : kinds) {
    std::string s = in.text();
    if (!kind_from_name(s, &k))
      fail("the graph has a dtype ", s, ", which this version does not know; use the version that wrote it, or a later one");
  }
  Arena& arena = Arena::current();
  std::vector<UOp> nodes(in.count()), src;
  for (size_t i = 0; i < nodes.size(); i++) {
    u64 o = in.num(), k = in.num(), lanes = in.num();
    if (o >= ops.size() || k >= kinds.size() || lanes < 1 || lanes > 65535) damaged();
    src.resize(in.count());
    if (src.size() > 65535 || (info(ops[o]).srcs >= 0 && src.size() != size_t(info(ops[o]).srcs))) damaged();
    for (UOp& s : src) {
      u64 back = in.num();
      if (back < 1 || back > i) damaged();
      s = nodes[i - back];
    }
    DType d(kinds[k], u16(lanes));
    Arg a;
    a.bits = 0;
    switch (info(ops[o]).arg) {
      case ArgKind::None: break;
      case ArgKind::Int: a.i = in.sig(); break;
      case ArgKind::Bits: is_float(d) ? in.raw(&a.bits, 8) : void(a.i = in.sig()); break;
      case ArgKind::Ints: {
        Ints v(in.count());
        for (i64& x : v) x = in.sig();
        a = arena.ints(v);
        break;
      }
      case ArgKind::Str: a = arena.str(in.text()); break;
    }
    nodes[i] = arena.make(ops[o], d, src, a);
  }
  std::vector<UOp> roots(in.count());
  for (UOp& r : roots) {
    u64 at = in.num();
    if (at >= nodes.size()) damaged();
    r = nodes[at];
  }
  if (!in.bytes.empty()) damaged();
  return roots;
}

}  // namespace tg
