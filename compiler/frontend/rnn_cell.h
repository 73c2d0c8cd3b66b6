// One step of a recurrent layer, for all directions at once: h and c are (directions, batch, hidden), what is multiplied by them is one product.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "frontend/tensor.h"

namespace tg {

using RnnActivation = std::function<Tensor(const Tensor&)>;
// (directions, batch, hidden) times the recurrent weights of some gates: (directions, batch, n * hidden).
using RnnProduct = std::function<Tensor(const Tensor& h)>;

// The activations that ONNX names, with their alphas and betas, which are given in the order of those that take one. `count` of them for each
// direction; without names the default ones.
std::vector<RnnActivation> rnn_activations(const std::vector<std::string>& names, const std::vector<f32>& alphas, const std::vector<f32>& betas,
                                           const std::vector<std::string>& defaults, i64 directions);

struct RnnCell {
  std::vector<RnnActivation> activations;
  f64 clip = 0;                    // 0: none
  bool input_forget = false;       // LSTM
  bool linear_before_reset = false;  // GRU
  Tensor peephole;                 // LSTM: (directions, 1, 3 * hidden), or absent
  Tensor reset_bias;               // GRU: the bias of R in its last gate, (directions, 1, hidden), or absent
  RnnProduct product;              // by the weights of all gates; GRU without linear_before_reset: of the first two
  RnnProduct reset_product;        // GRU without linear_before_reset: of the last

  // x: (directions, batch, gates * hidden): the products of the input, with the biases that are just added. Next h, and c of an LSTM.
  Tensor rnn(const Tensor& x, const Tensor& h) const;
  Tensor gru(const Tensor& x, const Tensor& h) const;
  std::pair<Tensor, Tensor> lstm(const Tensor& x, const Tensor& h, const Tensor& c) const;

 private:
  Tensor act(size_t i, const Tensor& x) const;  // after clipping
};

}  // namespace tg
