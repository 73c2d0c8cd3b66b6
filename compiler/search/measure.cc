// For the first launch buffers lie between pages that nothing may touch, what is only read cannot be written, and bytes around a buffer are looked at
// after it. Then the pages around are memory like any other: a masked store that reaches into a page without memory costs hundreds of cycles.
// Where buffers begin within their pages decides whether loads seem to wait for stores, so a time is the mean over several places.
// Constants rotate through copies that together exceed the last cache, as the weights of a model do; the rest stays warm.
// Tasks run one after another, and processor time is taken, so that other work on the machine counts little.
#include "search/measure.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/hash.h"
#include "ir/bounds.h"
#include "ir/canonical.h"
#include "ir/eval.h"
#include "ir/loops.h"
#include "runtime-lite/backend/cpu.h"
#include "target/bytes.h"

namespace tg {
namespace {

// Each VAR at its largest, at half of that, and at its smallest, which is 1 where it may be 0; those that differ.
std::vector<std::vector<i64>> sizes_of(const std::vector<UOp>& vars) {
  std::vector<std::vector<i64>> out;
  for (int way = 0; way < 3; way++) {
    std::vector<i64> ints;
    for (UOp v : vars) {
      i64 n = 0;
      if (v) {
        i64 least = std::max<i64>(1, v.src(0).as_int()), most = v.src(1).as_int(), multiple = std::max<i64>(1, v.src(2).as_int());
        n = way == 0 ? most : way == 1 ? std::max(least, most / 2) : least;
        n = std::min(most, (n + multiple - 1) / multiple * multiple);
      }
      ints.push_back(n);
    }
    if (std::find(out.begin(), out.end(), ints) == out.end()) out.push_back(std::move(ints));
  }
  return out;
}

}  // namespace

void MeasureSlot::lie_as(const Slot& s) { layout = s.layout, constant = s.constant, dims = s.dims, before = s.before, after = s.after, fill = s.fill; }

MeasureSubject MeasureSubject::of(UOp ast) {
  MeasureSubject s;
  std::vector<UOp> topo = toposort(ast);
  auto slot_of = [](UOp index) -> i64 {
    UOp b = memory_of(index);
    return b.is(Op::Param) ? b.arg_int() : -1;
  };
  for (UOp u : topo)
    if (u.is(Op::Param)) {
      if (u.arg_int() >= i64(s.slots.size())) s.slots.resize(size_t(u.arg_int()) + 1);
      MeasureSlot& m = s.slots[size_t(u.arg_int())];
      m.kind = u.dtype().kind;
      m.dims.clear();
      for (UOp d : u.src()) m.dims.push_back(most(d));
    }
  std::vector<UOp> vars;
  for (UOp u : topo)
    if (u.is(Op::Var)) {
      size_t n = size_t(var_number(u));
      if (vars.size() <= n) vars.resize(n + 1);
      vars[n] = u;
    }
  s.sizes = sizes_of(vars);
  Memo<i64> terms;
  for (UOp u : topo) {
    i64 below = 1;
    for (UOp x : u.src()) below = std::max(below, terms[x]);
    if (u.in(Op::Reduce | Op::Fold))
      for (UOp r : closed_ranges(u))
        if (is_uniform(r.src(0))) below *= std::max<i64>(1, most(r.src(0)));
    terms[u] = std::min<i64>(below, i64(1) << 40);
    if (u.is(Op::Load))
      if (i64 n = slot_of(u.src(0)); n >= 0) s.slots[size_t(n)].read = true;
    if (u.is(Op::Store))
      if (i64 n = slot_of(u.src(0)); n >= 0) s.slots[size_t(n)].written = true;
    if (u.is(Op::Cast) && is_int(u.dtype()) && is_float(u.src(0).dtype())) s.rounds = true;
    if (!u.is(Op::Index) || !u.src(0).is(Op::Param)) continue;
    for (size_t axis = 1; axis < u.nsrc(); axis++)
      for (UOp x : toposort(u.src(axis)))
        if (x.is(Op::Load) && is_int(x.dtype()))
          if (i64 n = slot_of(x.src(0)); n >= 0) {
            i64 dim = s.slots[size_t(u.src(0).arg_int())].dims[axis - 1];
            i64& limit = s.slots[size_t(n)].limit;
            limit = limit ? std::min(limit, dim) : dim;
          }
  }
  s.terms = terms[ast];
  return s;
}

namespace {

void write_program(Writer& w, const MeasuredProgram& p) {
  w.blob(p.object), w.text(p.entry), w.num(p.tasks), w.num(i64(p.layouts.size()));
  for (const Layout& l : p.layouts) w.layout(l);
}
MeasuredProgram read_program(Reader& r) {
  MeasuredProgram p;
  std::span<const u8> o = r.blob();
  p.object.assign(o.begin(), o.end());
  p.entry = r.text(), p.tasks = r.num();
  p.layouts.resize(r.count());
  for (Layout& l : p.layouts) l = r.layout();
  return p;
}
}  // namespace

std::vector<u8> MeasureJob::bytes() const {
  Writer w;
  w.num(i64(subject.slots.size())), w.num(subject.terms), w.num(subject.rounds), w.num(i64(subject.sizes.size()));
  for (const std::vector<i64>& ints : subject.sizes) w.nums(ints);
  for (const MeasureSlot& s : subject.slots)
    w.num(i64(s.kind)), w.nums(s.dims), w.layout(s.layout), w.num(s.constant), w.num(s.read), w.num(s.written), w.num(s.limit), w.nums(s.before), w.nums(s.after),
        w.num(i64(s.fill));
  write_program(w, base);
  write_program(w, candidate);
  w.real(best_ns), w.num(compare);
  return std::move(w.out);
}
MeasureJob MeasureJob::parse(std::span<const u8> b) {
  Reader r{b, "a measurement"};
  MeasureJob j;
  j.subject.slots.resize(r.count());
  j.subject.terms = r.num(), j.subject.rounds = r.num() != 0;
  j.subject.sizes.resize(r.count());
  for (std::vector<i64>& ints : j.subject.sizes) ints = r.nums();
  for (MeasureSlot& s : j.subject.slots)
    s.kind = Kind(r.num()), s.dims = r.nums(), s.layout = r.layout(), s.constant = r.num() != 0, s.read = r.num() != 0,
    s.written = r.num() != 0, s.limit = r.num(), s.before = r.nums(), s.after = r.nums(), s.fill = u64(r.num());
  j.base = read_program(r), j.candidate = read_program(r);
  j.best_ns = r.real(), j.compare = r.num() != 0;
  return j;
}
std::vector<u8> Measured::bytes() const {
  Writer w;
  w.real(ns), w.real(base_ns), w.real(ratio), w.num(runs);
  return std::move(w.out);
}
Measured Measured::parse(std::span<const u8> b) {
  Reader r{b, "a measurement's answer"};
  Measured m;
  m.ns = r.real(), m.base_ns = r.real(), m.ratio = r.real(), m.runs = r.num();
  return m;
}

namespace {

constexpr u8 kCanary = 0xa5;
constexpr size_t kFence = 1 << 20;  // on each side of a buffer: addresses that nothing may touch
constexpr size_t kPlaces = 64;  // lines of a page
constexpr int kMoves = 4;       // places that a time is the mean over
constexpr i64 kMostCopies = 64, kMostRotating = i64(96) << 20, kMostMemory = i64(4) << 30;

f64 now_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return f64(t.tv_sec) * 1e9 + f64(t.tv_nsec);
}
size_t page() {
  static const size_t p = size_t(sysconf(_SC_PAGESIZE));
  return p;
}
i64 last_cache() {
  long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return l3 > 0 ? l3 : l2 > 0 ? l2 : 32 << 20;
}

// Where guarded buffers lie, for the signal handler.
struct Region {
  char *begin, *end;  // of the mapping
  char *data, *data_end;
  int slot;
};
constexpr int kMostRegions = 256;
Region regions[kMostRegions];
volatile int n_regions = 0;

// Says which buffer was left, then dies of the signal as it would have.
void on_fault(int number, siginfo_t* info, void*) {
  char text[128];
  size_t n = 0;
  auto put = [&](const char* s) {
    while (*s && n < sizeof text) text[n++] = *s++;
  };
  auto put_number = [&](long v) {
    char digits[24];
    int k = 0;
    do digits[k++] = char('0' + v % 10), v /= 10;
    while (v);
    while (k && n < sizeof text) text[n++] = digits[--k];
  };
  char* at = static_cast<char*>(info->si_addr);
  for (int i = 0; i < n_regions; i++) {
    const Region& r = regions[i];
    if (at < r.begin || at >= r.end) continue;
    put("it touches ");
    if (at >= r.data_end)
      put_number(at - r.data_end), put(" bytes behind the end of slot ");
    else if (at < r.data)
      put_number(r.data - at), put(" bytes before slot ");
    else
      put("what it may only read in slot ");
    put_number(r.slot);
    break;
  }
  if (n) {
    put("\n");
    ssize_t wrote = write(2, text, n);
    (void)wrote;
  }
  signal(number, SIG_DFL);
  raise(number);
}

class Guarded {
 public:
  Guarded(i64 bytes, int slot) : bytes_(size_t(bytes)) {
    size_t data = (bytes_ + 63) / 64 * 64;
    pages_ = (data + 2 * 64 + kPlaces * 64 + page() - 1) / page() * page();
    void* m = mmap(nullptr, pages_ + 2 * kFence, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) fail("measurer: no memory for ", bytes, " bytes");
    base_ = static_cast<char*>(m);
    if (mprotect(base_ + kFence, pages_, PROT_READ | PROT_WRITE)) fail("measurer: memory cannot be made writable");
    memset(base_ + kFence, kCanary, pages_);
    data_ = base_ + kFence + pages_ - data;
    if (n_regions < kMostRegions) {
      regions[n_regions] = {base_, base_ + pages_ + 2 * kFence, data_, data_ + bytes_, slot};
      n_regions = n_regions + 1;
    }
  }
  ~Guarded() {
    for (int i = 0; i < n_regions; i++)
      if (regions[i].begin == base_) {
        regions[i] = regions[n_regions - 1];
        n_regions = n_regions - 1;
        break;
      }
    munmap(base_, pages_ + 2 * kFence);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  u8* data() const { return reinterpret_cast<u8*>(data_); }
  size_t size() const { return bytes_; }
  // Whether nothing may touch the pages around.
  void close(bool on) {
    if (on == closed_) return;
    closed_ = on;
    for (char* fence : {base_, base_ + kFence + pages_}) {
      (void)mprotect(fence, kFence, on ? PROT_NONE : PROT_READ | PROT_WRITE);
      if (on || touched_) continue;
      for (size_t at = 0; at < kFence; at += page()) fence[at] = 0;
    }
    touched_ = true;
  }
  // Moves the data so many lines down; 0: where nothing can be read behind it unseen.
  void place(size_t lines) {
    char* to = base_ + kFence + pages_ - (bytes_ + 63) / 64 * 64 - lines * 64;
    if (to == data_) return;
    if (protected_) (void)mprotect(base_ + kFence, pages_, PROT_READ | PROT_WRITE);
    memmove(to, data_, bytes_);
    memset(base_ + kFence, kCanary, size_t(to - base_) - kFence);
    memset(to + bytes_, kCanary, size_t(base_ + kFence + pages_ - to) - bytes_);
    data_ = to;
    for (int i = 0; i < n_regions; i++)
      if (regions[i].begin == base_) regions[i].data = data_, regions[i].data_end = data_ + bytes_;
    if (protected_) read_only(true);
  }
  void read_only(bool on) {
    protected_ = on;
    (void)mprotect(base_ + kFence, pages_, on ? PROT_READ : PROT_READ | PROT_WRITE);
  }
  // Bytes around the data that are not as they were: how far outside, or nothing.
  std::string overwritten() const {
    const char *p = base_ + kFence, *end = p + pages_;
    for (const char* x = p; x < data_; x++)
      if (u8(*x) != kCanary) return str(data_ - x, " bytes before the start");
    for (const char* x = data_ + bytes_; x < end; x++)
      if (u8(*x) != kCanary) return str(x - (data_ + bytes_), " bytes behind the end");
    return {};
  }

 private:
  char *base_, *data_;
  size_t bytes_, pages_;
  bool protected_ = false, closed_ = true, touched_ = false;
};

struct Random {
  u64 x;
  u64 next() {
    x += 0x9e3779b97f4a7c15ull;
    u64 z = x;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull, z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
};

// Row-major elements: floats in [-1, 1), integers that are valid indices where they are used as such.
std::vector<u8> content(const MeasureSlot& s, size_t number) {
  i64 n = count(s.dims);
  Random r{u64(number) * 977 + 12345};
  if (s.kind == Kind::F32) {
    std::vector<u8> b(size_t(n) * 4);
    for (i64 i = 0; i < n; i++) {
      f32 v = f32(i64(r.next() >> 40)) / f32(1 << 23) - 1;
      memcpy(&b[size_t(i) * 4], &v, 4);
    }
    return b;
  }
  if (is_float(s.kind)) {
    std::vector<f64> v(static_cast<size_t>(n));
    for (f64& x : v) x = f64(i64(r.next() >> 40)) / f64(1 << 23) - 1;
    return encode(values(s.kind, s.dims, v));
  }
  i64 limit = s.kind == Kind::Bool ? 2
              : s.limit            ? s.limit
                                   : std::min<i64>(bits(s.kind) <= 8 ? 256 : 16, i64(1) << std::min(bits(s.kind), 30));
  std::vector<i64> v(static_cast<size_t>(n));
  for (i64& x : v) x = i64(r.next() % u64(std::max<i64>(1, limit)));
  return encode(int_values(s.kind, s.dims, v));
}

// Row-major elements with the border that kernels count on.
std::vector<u8> bordered(const MeasureSlot& s, std::vector<u8> rows) {
  if (s.before.empty()) return rows;
  size_t bytes = size_t(bits(s.kind)) / 8;
  for (i64 i = 0; i < count(s.dims); i++) {
    bool border = false;
    i64 rest = i;
    for (size_t a = s.dims.size(); a-- > 0; rest /= s.dims[a])
      border |= rest % s.dims[a] < s.before[a] || rest % s.dims[a] >= s.dims[a] - s.after[a];
    if (border) memcpy(&rows[size_t(i) * bytes], &s.fill, bytes);
  }
  return rows;
}

std::vector<u8> in_layout(const std::vector<u8>& rows, const MeasureSlot& s, const Layout& l) {
  if (bits(s.kind) < 8 || l.is_row_major(s.dims)) return rows;
  std::vector<u8> out(size_t(byte_size(s.kind, l.elems())));
  apply_layout(l, s.dims, bits(s.kind) / 8, rows.data(), out.data());
  return out;
}

class Program {
 public:
  explicit Program(const MeasuredProgram& p) : tasks_(p.tasks) {
    tgb::Memory memory{[](void*, size_t n, size_t align) { return aligned_alloc(align, (n + align - 1) / align * align); },
                       [](void*, void* m) { free(m); }, nullptr};
    tgb::Object object{p.object.data(), p.object.size(), 0};
    tgb::Entry entry{0, p.entry.c_str(), nullptr};
    char error[256];
    if (tgb::load_objects(memory, &object, 1, &entry, 1, &image_, error, sizeof error) != TGB_OK) fail("the object ", std::string(error));
    memcpy(&kernel_, &entry.kernel, sizeof kernel_);
  }
  ~Program() { tgb::unload_objects(image_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  void run(void* const* args, const std::vector<i64>& ints) const {
    for (i64 t = 0; t < tasks_; t++) kernel_(args, ints.data(), t);
  }

 private:
  i64 tasks_;
  tgb::Image image_{};
  tgb::Kernel kernel_ = nullptr;
};

// A constant in one layout: a guarded copy for the first launch, and copies to rotate through.
struct Constant {
  std::string layout;
  std::vector<u8> bytes;
  std::unique_ptr<Guarded> guarded;
  std::vector<u8> ring;  // copies, each at a multiple of stride
  size_t stride = 0;
};

// A kernel under measurement: inputs, and what its outputs must be. Kept for the next candidate of the same kernel.
class Bench {
 public:
  explicit Bench(const MeasureJob& job) : s_(job.subject) {
    i64 total = 0, constants = 0;
    for (size_t i = 0; i < s_.slots.size(); i++) {
      const MeasureSlot& m = s_.slots[i];
      i64 bytes = byte_size(m.kind, std::max(m.constant ? i64(1) : m.layout.elems(), count(m.dims)));
      total += bytes;
      if (m.constant) constants += bytes;
      if (total > kMostMemory) fail("its buffers take more than ", kMostMemory >> 30, " GiB");
    }
    copies_ = constants ? std::clamp<i64>(std::min(last_cache() * 5 / 4, kMostRotating) / constants + 1, 1, kMostCopies) : 1;
    for (size_t i = 0; i < s_.slots.size(); i++) {
      const MeasureSlot& m = s_.slots[i];
      rows_.push_back(bordered(m, content(m, i)));
      buffers_.emplace_back();
      initial_.emplace_back();
      constants_.emplace_back();
      if (m.constant) continue;
      initial_[i] = in_layout(rows_[i], m, m.layout);
      if (m.written && !m.read) std::fill(initial_[i].begin(), initial_[i].end(), u8(0x5a));
      buffers_[i] = std::make_unique<Guarded>(i64(initial_[i].size()), int(i));
      memcpy(buffers_[i]->data(), initial_[i].data(), initial_[i].size());
      if (!m.written) buffers_[i]->read_only(true);
    }
    Program base(job.base);
    for (const std::vector<i64>& ints : s_.sizes) {
      checked_run(base, job.base, ints);
      auto& all = expected_.emplace_back(s_.slots.size());
      for (size_t i = 0; i < s_.slots.size(); i++)
        if (s_.slots[i].written) all[i].assign(buffers_[i]->data(), buffers_[i]->data() + buffers_[i]->size());
    }
  }
  const std::vector<std::vector<i64>>& sizes() const { return s_.sizes; }
  // The base's times at each size, once known.
  std::vector<f64> base_ns;
  bool spoiled = false;  // a candidate wrote beside its buffers: who knows what else

  // One launch with guards, from the initial state.
  void checked_run(const Program& p, const MeasuredProgram& of, const std::vector<i64>& ints) {
    for (auto& b : buffers_)
      if (b) b->close(true), b->place(0);
    reset();
    std::vector<void*> args;
    for (size_t i = 0; i < s_.slots.size(); i++)
      args.push_back(s_.slots[i].constant ? constant(i, of.layouts[i]).guarded->data() : buffers_[i]->data());
    p.run(args.data(), ints);
    for (size_t i = 0; i < s_.slots.size(); i++)
      if (s_.slots[i].written)
        if (std::string where = buffers_[i]->overwritten(); !where.empty()) {
          spoiled = true;
          fail("it writes outside slot ", i, ", ", where);
        }
  }
  // A candidate at every size.
  void check(const Program& p, const MeasuredProgram& of) {
    for (size_t n = 0; n < s_.sizes.size(); n++) {
      checked_run(p, of, s_.sizes[n]);
      for (size_t i = 0; i < s_.slots.size(); i++)
        if (s_.slots[i].written) compare(i, expected_[n][i]);
    }
  }

  void reset() {
    for (size_t i = 0; i < s_.slots.size(); i++)
      if (s_.slots[i].written) memcpy(buffers_[i]->data(), initial_[i].data(), initial_[i].size());
  }

  // Buffers at other distances from each other, in lines of a page.
  void move(int place) {
    constexpr size_t kStep[] = {7, 19, 29, 43};
    static_assert(std::size(kStep) == kMoves);
    for (size_t i = 0; i < buffers_.size(); i++)
      if (buffers_[i]) buffers_[i]->place((i + 1) * kStep[place] % kPlaces);
  }

  // A program with its arguments, one set for each copy of the constants.
  struct Timed {
    const Program& program;
    std::vector<std::vector<void*>> args;
    size_t at = 0;
    const Bench* bench = nullptr;
    const std::vector<i64>* ints = nullptr;
    // The arguments where buffers lie now.
    void follow() {
      for (auto& a : args)
        for (size_t i = 0; i < a.size(); i++)
          if (bench->buffers_[i]) a[i] = bench->buffers_[i]->data();
    }
    f64 batch(i64 reps) {
      f64 t = now_ns();
      for (i64 i = 0; i < reps; i++) program.run(args[at++ % args.size()].data(), *ints);
      return (now_ns() - t) / f64(reps);
    }
  };
  Timed timed(const Program& p, const MeasuredProgram& of) {
    for (auto& b : buffers_)
      if (b) b->close(false);
    Timed t{p, {}, 0, this, &s_.sizes[0]};
    for (i64 c = 0; c < copies_; c++) {
      std::vector<void*> args;
      for (size_t i = 0; i < s_.slots.size(); i++) {
        if (!s_.slots[i].constant) {
          args.push_back(buffers_[i]->data());
          continue;
        }
        Constant& k = constant(i, of.layouts[i]);
        if (k.ring.empty()) fill_ring(k);
        u8* begin = k.ring.data() + (64 - reinterpret_cast<uintptr_t>(k.ring.data()) % 64) % 64;
        args.push_back(begin + size_t(c) * k.stride);
      }
      t.args.push_back(std::move(args));
    }
    return t;
  }
  // What is both read and written changes from launch to launch, and not for the better.
  bool in_place() const {
    return std::any_of(s_.slots.begin(), s_.slots.end(), [](const MeasureSlot& m) { return m.read && m.written; });
  }

 private:
  Constant& constant(size_t slot, const Layout& l) {
    std::string text = l.str();
    auto& all = constants_[slot];
    for (size_t i = 0; i < all.size(); i++)
      if (all[i]->layout == text) {
        std::rotate(all.begin() + long(i), all.begin() + long(i) + 1, all.end());
        return *all.back();
      }
    // Those used last are kept: candidates of one round share layouts, and a comparison has two.
    if (all.size() >= 4) all.erase(all.begin());
    auto c = std::make_unique<Constant>();
    c->layout = text;
    c->bytes = in_layout(rows_[slot], s_.slots[slot], l);
    c->guarded = std::make_unique<Guarded>(i64(c->bytes.size()), int(slot));
    memcpy(c->guarded->data(), c->bytes.data(), c->bytes.size());
    c->guarded->read_only(true);
    all.push_back(std::move(c));
    return *all.back();
  }
  void fill_ring(Constant& k) {
    k.stride = (k.bytes.size() + 255) / 256 * 256;
    k.ring.resize(k.stride * size_t(copies_) + 64);
    u8* begin = k.ring.data() + (64 - reinterpret_cast<uintptr_t>(k.ring.data()) % 64) % 64;
    for (i64 c = 0; c < copies_; c++) memcpy(begin + size_t(c) * k.stride, k.bytes.data(), k.bytes.size());
  }

  // Within the bound for sums taken in another order, by the size that a sum of so many terms of alternating sign has.
  void compare(size_t slot, const std::vector<u8>& expected) const {
    const MeasureSlot& m = s_.slots[slot];
    const u8 *got = buffers_[slot]->data(), *want = expected.data();
    size_t bytes = expected.size();
    if (!memcmp(got, want, bytes)) return;
    i64 n = i64(bytes) * 8 / std::max(1, bits(m.kind));
    Values a = decode(m.kind, {n}, {got, bytes}), b = decode(m.kind, {n}, {want, bytes});
    if (!is_float(m.kind)) {
      i64 off = 0;
      for (i64 i = 0; i < n; i++) {
        if (a.v[size_t(i)] == b.v[size_t(i)]) continue;
        if (!s_.rounds || std::abs(a.number(i) - b.number(i)) > 1 || ++off > 1 + n / 100) wrong(slot, i, a, b);
      }
      return;
    }
    f64 squares = 0, finite = 0;
    for (i64 i = 0; i < n; i++)
      if (f64 v = b.number(i); std::isfinite(v) && std::abs(v) < 1e30) squares += v * v, finite++;
    f64 size = finite > 0 ? std::sqrt(squares / finite) : 0;
    f64 eps = m.kind == Kind::F64    ? 0x1p-53
              : m.kind == Kind::F32  ? 0x1p-24
              : m.kind == Kind::F16  ? 0x1p-11
              : m.kind == Kind::BF16 ? 0x1p-8
                                     : 0x1p-3;
    f64 sum_eps = m.kind == Kind::F64 ? 0x1p-53 : 0x1p-24;
    f64 bound = 64 * eps + 16 * std::sqrt(f64(s_.terms)) * sum_eps;
    for (i64 i = 0; i < n; i++) {
      f64 x = a.number(i), y = b.number(i);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (!(std::abs(x - y) <= bound * std::max(std::abs(y), size))) wrong(slot, i, a, b);
    }
  }
  [[noreturn]] static void wrong(size_t slot, i64 at, const Values& got, const Values& want) {
    fail("it computes a wrong value: element ", at, " of slot ", slot, " is ", got.number(at), ", not ", want.number(at));
  }

  MeasureSubject s_;
  i64 copies_ = 1;
  std::vector<std::vector<u8>> rows_, initial_;         // by slot
  std::vector<std::vector<std::vector<u8>>> expected_;  // by size, by slot
  std::vector<std::unique_ptr<Guarded>> buffers_;
  std::vector<std::vector<std::unique_ptr<Constant>>> constants_;
};

constexpr f64 kBatchNs = 20e3, kEnoughNs = 2e6, kMostNs = 300e6, kLongNs = 4e6;
constexpr int kLeastBatches = 2 * kMoves, kMostBatches = 40;

i64 reps_of(const Bench& b, f64 ns) { return std::clamp<i64>(i64(kBatchNs / std::max(ns, 1.0)), 1, b.in_place() ? 4 : 2000); }

// The least time at each place, and the mean over places.
class Places {
 public:
  void add(int place, f64 ns) { least_[place] = least_[place] > 0 ? std::min(least_[place], ns) : ns; }
  f64 mean() const {
    f64 sum = 0;
    int n = 0;
    for (f64 v : least_)
      if (v > 0) sum += v, n++;
    return n ? sum / n : 0;
  }

 private:
  f64 least_[kMoves] = {};
};

// Of the sizes, the largest first.
f64 weight(size_t size, size_t sizes) { return sizes == 1 ? 1 : size == 0 ? 0.5 : 0.5 / f64(sizes - 1); }

Measured time_one(Bench& bench, Bench::Timed& t, f64 best_ns) {
  Measured m;
  bench.reset();
  m.ns = t.batch(1), m.runs = 1;
  // Long ones tell with their first launch, the checked one has warmed what can be warm; short ones find cold caches.
  if (m.ns < kLongNs) m.ns = t.batch(1), m.runs++;
  if (best_ns > 0 && m.ns > (m.ns < kLongNs ? 3 : 1.5) * best_ns) return m;
  i64 reps = reps_of(bench, m.ns);
  Places places;
  f64 spent = 0;
  for (int i = 0; i < kMostBatches && spent < kMostNs; i++) {
    bench.move(i % kMoves);
    t.follow();
    if (bench.in_place()) bench.reset();
    f64 ns = t.batch(reps);
    places.add(i % kMoves, ns);
    m.ns = places.mean();
    m.runs += reps, spent += ns * f64(reps);
    if (i + 1 >= (ns > kLongNs ? 2 : kLeastBatches) && spent >= kEnoughNs) break;
    if (i == kMoves - 1 && best_ns > 0 && m.ns > 1.5 * best_ns) break;
  }
  return m;
}

// The base at every size, once for all candidates.
Measured time_base(Bench& bench, Bench::Timed t) {
  Measured m;
  bench.base_ns.clear();
  for (size_t n = 0; n < bench.sizes().size(); n++) {
    t.ints = &bench.sizes()[n];
    Measured one = time_one(bench, t, 0);
    bench.base_ns.push_back(one.ns), m.runs += one.runs;
  }
  m.ns = bench.base_ns[0];
  return m;
}

// At every size, each by the base's time there. What is slow at the largest is not timed on.
Measured time_sizes(Bench& bench, const Program& base, const MeasuredProgram& of, Bench::Timed t, f64 best_ns) {
  Measured m = time_one(bench, t, best_ns);
  size_t sizes = bench.sizes().size();
  if (sizes == 1 || (best_ns > 0 && m.ns * weight(0, sizes) > 1.5 * best_ns)) return m;
  if (bench.base_ns.empty()) time_base(bench, bench.timed(base, of));
  f64 share = 0;
  for (size_t n = 0; n < sizes; n++) {
    t.ints = &bench.sizes()[n];
    Measured one = n ? time_one(bench, t, 0) : m;
    share += weight(n, sizes) * one.ns / bench.base_ns[n];
    if (n) m.runs += one.runs;
  }
  m.ns = share * bench.base_ns[0];
  return m;
}

Measured time_both(Bench& bench, Bench::Timed& base, Bench::Timed& candidate) {
  Measured m;
  bench.reset();
  base.batch(1), candidate.batch(1);
  i64 reps = reps_of(bench, std::min(base.batch(1), candidate.batch(1)));
  std::vector<f64> ratios[kMoves];
  Places of_base, of_candidate;
  f64 spent = 0;
  for (int i = 0; i < 101 && spent < kMostNs * 2; i++) {
    int place = i % kMoves;
    bench.move(place);
    base.follow(), candidate.follow();
    if (bench.in_place()) bench.reset();
    // Each goes first in turn.
    f64 b, c;
    if (i / kMoves % 2)
      b = base.batch(reps), c = candidate.batch(reps);
    else
      c = candidate.batch(reps), b = base.batch(reps);
    of_base.add(place, b), of_candidate.add(place, c);
    m.runs += reps, spent += (b + c) * f64(reps);
    ratios[place].push_back(c / b);
    if (i >= 4 * kMoves - 1 && spent > 10 * kEnoughNs) break;
  }
  m.base_ns = of_base.mean(), m.ns = of_candidate.mean();
  int n = 0;
  for (std::vector<f64>& r : ratios) {
    if (r.empty()) continue;
    std::sort(r.begin(), r.end());
    m.ratio += r[r.size() / 2], n++;
  }
  m.ratio /= n;
  return m;
}

Measured time_both_sizes(Bench& bench, Bench::Timed base, Bench::Timed candidate) {
  Measured all;
  size_t sizes = bench.sizes().size();
  for (size_t n = 0; n < sizes; n++) {
    base.ints = candidate.ints = &bench.sizes()[n];
    Measured m = time_both(bench, base, candidate);
    if (n == 0) all.base_ns = m.base_ns;
    all.ns += weight(n, sizes) * m.ns / m.base_ns * all.base_ns;
    all.ratio += weight(n, sizes) * m.ratio, all.runs += m.runs;
  }
  return all;
}

}  // namespace

Result<std::vector<u8>> measure_bytes(std::span<const u8> bytes) {
  static const bool handled = [] {
    static u8 stack[1 << 16];
    stack_t alternative{stack, 0, sizeof stack};
    sigaltstack(&alternative, nullptr);
    struct sigaction a {};
    a.sa_sigaction = on_fault, a.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &a, nullptr);
    sigaction(SIGBUS, &a, nullptr);
    return true;
  }();
  (void)handled;
  MeasureJob job = MeasureJob::parse(bytes);
  static std::unique_ptr<Bench> bench;
  static Digest of;
  MeasureJob subject = job;
  subject.candidate = {}, subject.best_ns = 0, subject.compare = false;
  Digest key = digest(std::span<const u8>(subject.bytes()));
  if (!bench || key != of) {
    bench.reset();  // not two at once
    bench = std::make_unique<Bench>(job);
    of = key;
  }
  Program base(job.base);
  if (job.candidate.object.empty()) return time_base(*bench, bench->timed(base, job.base)).bytes();
  Program candidate(job.candidate);
  try {
    bench->check(candidate, job.candidate);
  } catch (const Error&) {
    if (bench->spoiled) bench.reset();
    throw;
  }
  Measured m = job.compare ? time_both_sizes(*bench, bench->timed(base, job.base), bench->timed(candidate, job.candidate))
                           : time_sizes(*bench, base, job.base, bench->timed(candidate, job.candidate), job.best_ns);
  return m.bytes();
}

}  // namespace tg
