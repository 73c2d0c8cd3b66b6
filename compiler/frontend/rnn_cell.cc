#include "frontend/rnn_cell.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace tg {
namespace {

struct Known {
  const char* name;
  int parameters;      // 0: none, 1: alpha, 2: alpha and beta
  f64 alpha, beta;     // where none are given
  Tensor (*fn)(const Tensor& x, f64 alpha, f64 beta);
};

// clang-format off
constexpr Known kKinds[] = {
  {"relu",            0, 0,    0,   [](const Tensor& x, f64, f64) { return x.relu(); }},
  {"tanh",            0, 0,    0,   [](const Tensor& x, f64, f64) { return x.tanh(); }},
  {"sigmoid",         0, 0,    0,   [](const Tensor& x, f64, f64) { return x.sigmoid(); }},
  {"softsign",        0, 0,    0,   [](const Tensor& x, f64, f64) { return x / (1.0 + x.abs()); }},
  {"softplus",        0, 0,    0,   [](const Tensor& x, f64, f64) { return x.softplus(); }},
  {"affine",          2, 1,    0,   [](const Tensor& x, f64 a, f64 b) { return x * a + b; }},
  {"leakyrelu",       1, 0.01, 0,   [](const Tensor& x, f64 a, f64) { return x.leaky_relu(a); }},
  {"thresholdedrelu", 1, 1,    0,   [](const Tensor& x, f64 a, f64) { return where(x.gt(x.like(a)), x, x.like(0)); }},
  {"scaledtanh",      2, 1,    1,   [](const Tensor& x, f64 a, f64 b) { return (x * b).tanh() * a; }},
  {"hardsigmoid",     2, 0.2,  0.5, [](const Tensor& x, f64 a, f64 b) { return x.hard_sigmoid(a, b); }},
  {"elu",             1, 1,    0,   [](const Tensor& x, f64 a, f64) { return where(x.lt(x.like(0)), (x.exp() - 1) * a, x); }},
};
// clang-format on

std::string lower(std::string s) {
  for (char& c : s) c = char(std::tolower(u8(c)));
  return s;
}

// Part i of the last axis, cut into parts of n.
Tensor part(const Tensor& x, i64 i, i64 n) { return x.shrink(-1, i * n, n); }

}  // namespace

std::vector<RnnActivation> rnn_activations(const std::vector<std::string>& names, const std::vector<f32>& alphas, const std::vector<f32>& betas,
                                           const std::vector<std::string>& defaults, i64 directions) {
  size_t count = defaults.size();
  if (!names.empty() && names.size() != count * size_t(directions))
    fail(names.size(), " activations, expected ", count, " for each of ", directions, " directions");
  std::vector<std::vector<RnnActivation>> all;  // by direction
  std::vector<std::string> text;
  size_t alpha = 0, beta = 0;
  for (i64 d = 0; d < directions; d++) {
    all.emplace_back();
    for (size_t i = 0; i < count; i++) {
      std::string name = lower(names.empty() ? defaults[i] : names[size_t(d) * count + i]);
      const Known* k = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Known& x) { return x.name == name; });
      if (k == std::end(kKinds)) fail("no activation is called ", name, "; known: ", [&] {
        std::string s;
        for (const Known& x : kKinds) s += str(s.empty() ? "" : ", ", x.name);
        return s;
      }());
      f64 a = k->parameters > 0 && alpha < alphas.size() ? alphas[alpha++] : k->alpha, b = k->parameters > 1 && beta < betas.size() ? betas[beta++] : k->beta;
      all.back().push_back([k, a, b](const Tensor& x) { return k->fn(x, a, b); });
      text.push_back(str(name, " ", a, " ", b));
    }
  }
  if (directions == 1) return all[0];
  // Both directions are steps of one tensor: where they differ, each axis 0 has its own.
  std::vector<RnnActivation> out;
  for (size_t i = 0; i < count; i++) {
    if (text[i] == text[count + i]) {
      out.push_back(all[0][i]);
      continue;
    }
    out.push_back([f = all[0][i], g = all[1][i]](const Tensor& x) {
      Tensor first = Tensor::arange(2, Kind::I32).eq(Tensor::scalar(Kind::I32, 0)).reshape(Ints{2, 1, 1});
      return where(first, f(x), g(x));
    });
  }
  return out;
}

Tensor RnnCell::act(size_t i, const Tensor& x) const { return activations[i](clip > 0 ? x.clip(x.like(-clip), x.like(clip)) : x); }

// What the recurrent weights make has a buffer of its own: its rows are the lanes of its kernel, and its gates are read side by side.
Tensor RnnCell::rnn(const Tensor& x, const Tensor& h) const { return act(0, x + product(h)); }

Tensor RnnCell::gru(const Tensor& x, const Tensor& h) const {
  i64 n = h.size(-1);
  Tensor reset, last;
  if (linear_before_reset) {
    Tensor g = product(h).contiguous();
    reset = act(0, part(x, 1, n) + part(g, 1, n));
    Tensor linear = part(g, 2, n);
    if (reset_bias) linear = linear + reset_bias;
    last = act(1, part(x, 2, n) + reset * linear);
    Tensor update = act(0, part(x, 0, n) + part(g, 0, n));
    return (1.0 - update) * last + update * h;
  }
  Tensor g = (x.shrink(-1, 0, 2 * n) + product(h)).contiguous();
  Tensor update = act(0, part(g, 0, n));
  Tensor gated = (act(0, part(g, 1, n)) * h).contiguous();
  Tensor sum = part(x, 2, n) + reset_product(gated);
  if (reset_bias) sum = sum + reset_bias;
  last = act(1, sum);
  return (1.0 - update) * last + update * h;
}

std::pair<Tensor, Tensor> RnnCell::lstm(const Tensor& x, const Tensor& h, const Tensor& c) const {
  i64 n = h.size(-1);
  Tensor g = (x + product(h)).contiguous();
  auto gate = [&](i64 i, i64 hole, const Tensor& cell) { return peephole ? part(g, i, n) + part(peephole, hole, n) * cell : part(g, i, n); };
  Tensor in = act(0, gate(0, 0, c));
  Tensor forget = input_forget ? 1.0 - in : act(0, gate(2, 2, c));
  Tensor cell = forget * c + in * act(1, part(g, 3, n));
  Tensor out = act(0, gate(1, 1, cell));
  return {out * activations[2](cell), cell};
}

}  // namespace tg
