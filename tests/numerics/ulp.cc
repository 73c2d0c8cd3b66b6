// The largest error of each transcendental op over all f32 values: ulp [--step N] [--threads N] [--f64 N] [--tables] [op ...]. Without --step all 2^32
// values (minutes an op). --f64 N: N random f64 values instead. --tables: as for targets with LOOKUP.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "base/error.h"
#include "codegen/transcendental.h"
#include "compiled.h"
#include "reference.h"

using namespace tg;
using namespace tg::test;

namespace {
struct Worst {
  f64 ulp = -1, x = 0, y = 0, got = 0;
  void take(const Worst& w) {
    if (w.ulp > ulp) *this = w;
  }
};
template <class T, class W>
Worst measure(Op op, const Library& k, const T* x, const T* y, T* out, i64 n) {
  std::vector<const void*> args{out, x};
  if (op == Op::Pow) args.push_back(y);
  k.call(0, args, n);
  Worst w;
  for (i64 i = 0; i < n; i++) {
    f64 u = ulps<T, W>(out[i], reference<W>(op, W(x[i]), W(y[i])));
    if (u > w.ulp) w = {u, f64(x[i]), f64(y[i]), f64(out[i])};
  }
  return w;
}
template <class T>
T random_float(std::mt19937_64& g, Op op) {
  using U = std::conditional_t<sizeof(T) == 4, u32, u64>;
  // Half of them from all bit patterns, half where the function does something.
  if (g() & 1) return std::bit_cast<T>(U(g()));
  f64 unit = f64(g() >> 11) * 0x1p-53;
  f64 reach = op == Op::Pow || op == Op::Exp || op == Op::Sinh || op == Op::Cosh ? 100 : op == Op::Asin || op == Op::Acos || op == Op::Atanh ? 1 : 8;
  return T((2 * unit - 1) * reach);
}
}  // namespace

int main(int argc, char** argv) {
  u64 step = 1, doubles = 0, pairs = 100'000'000;
  int threads = 1;
  bool tables = false;
  std::vector<Op> ops;
  for (int i = 1; i < argc; i++) {
    Op op;
    if (!std::strcmp(argv[i], "--step") && i + 1 < argc) step = u64(std::atoll(argv[++i]));
    else if (!std::strcmp(argv[i], "--threads") && i + 1 < argc) threads = std::atoi(argv[++i]);
    else if (!std::strcmp(argv[i], "--f64") && i + 1 < argc) doubles = u64(std::atoll(argv[++i]));
    else if (!std::strcmp(argv[i], "--pairs") && i + 1 < argc) pairs = u64(std::atoll(argv[++i]));
    else if (!std::strcmp(argv[i], "--tables")) tables = true;
    else if (op_from_name(argv[i], &op) && kTranscendental.has(op)) ops.push_back(op);
    else return std::fprintf(stderr, "ulp: %s is neither an option nor a transcendental op\n", argv[i]), 2;
  }
  if (ops.empty())
    for (int i = 0; i < kOps; i++)
      if (kTranscendental.has(Op(i))) ops.push_back(Op(i));
  Arena arena;
  Arena::Scope scope(arena);
  constexpr i64 kBlock = 1 << 16;
  for (Op op : ops) {
    Library k;
    k.add(std::vector<Kind>(op == Op::Pow ? 2 : 1, doubles ? Kind::F64 : Kind::F32), [&](std::span<const UOp> v) { return lower_transcendental(alu(op, v), tables); }, {});
    k.build();
    u64 total = doubles ? doubles : op == Op::Pow ? pairs : ((u64(1) << 32) + step - 1) / step;
    std::vector<Worst> worst(size_t(threads), Worst{});
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; t++)
      pool.emplace_back([&, t] {
        for (u64 b = u64(t); b * kBlock < total; b += u64(threads)) {
          i64 n = i64(std::min<u64>(kBlock, total - b * kBlock));
          std::mt19937_64 g(b);
          if (doubles) {
            std::vector<f64> x(n), y(n), out(n);
            for (i64 i = 0; i < n; i++) x[i] = random_float<f64>(g, op), y[i] = random_float<f64>(g, op);
            worst[t].take(measure<f64, long double>(op, k, x.data(), y.data(), out.data(), n));
          } else {
            std::vector<f32> x(n), y(n), out(n);
            for (i64 i = 0; i < n; i++) {
              x[i] = op == Op::Pow ? random_float<f32>(g, op) : std::bit_cast<f32>(u32((b * kBlock + u64(i)) * step));
              y[i] = op == Op::Pow ? random_float<f32>(g, op) : 0;
            }
            worst[t].take(measure<f32, f64>(op, k, x.data(), y.data(), out.data(), n));
          }
        }
      });
    for (std::thread& t : pool) t.join();
    Worst w;
    for (const Worst& o : worst) w.take(o);
    std::printf("%-6s %8.4f ulp at %a %a: got %a, want %.17g\n", std::string(info(op).name).c_str(), w.ulp, w.x, w.y, w.got,
                doubles ? f64(reference<long double>(op, w.x, w.y)) : reference<f64>(op, w.x, w.y));
    std::fflush(stdout);
  }
}
