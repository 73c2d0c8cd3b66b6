// LSTM, GRU and RNN. The products of all inputs are one matmul, outside the loop; a step is rnn_cell.cc's, for both directions of a bidirectional
// layer at once: direction 1 reads its input, and writes its output, from the end. https://onnx.ai/onnx/operators/
#include <algorithm>

#include "frontend/onnx_op.h"
#include "frontend/pool.h"
#include "frontend/quant.h"
#include "frontend/rnn_cell.h"

namespace tg {
namespace {

// t with other sizes of as many elements; a weight is seen so itself, which leaves its reader one axis.
Tensor with_sizes(const Tensor& t, const Ints& sizes) {
  if (!t.uop().is(Op::Constant)) return t.reshape(sizes);
  ConstantData c = Pool::current().constants()[size_t(t.uop().arg_int())];
  c.dims = sizes;
  return Pool::current().add(std::move(c));
}

enum class Cell : u8 { Rnn, Gru, Lstm };

class Layer {
 public:
  Layer(OnnxNode& n, Cell cell) : n_(n), cell_(cell), gates_(cell == Cell::Rnn ? 1 : cell == Cell::Gru ? 3 : 4) {
    std::string direction = n.attr("direction", "forward");
    std::transform(direction.begin(), direction.end(), direction.begin(), [](u8 c) { return char(std::tolower(c)); });
    n.require(direction == "forward" || direction == "reverse" || direction == "bidirectional", "direction ", direction,
              " is unknown; known: forward, reverse, bidirectional");
    reverse_ = direction == "reverse", both_ = direction == "bidirectional";
    directions_ = both_ ? 2 : 1;
    batch_first_ = n.attr("layout", 0) == 1;
    n.require(n[0].rank() == 3 && n[1].rank() == 3 && n[2].rank() == 3, "X, W and R must have 3 axes, not ", n[0].rank(), ", ", n[1].rank(), " and ",
              n[2].rank());
    x_ = batch_first_ ? n[0].transpose(0, 1) : n[0];
    out_ = x_.dtype();
    x_ = x_.widen();
    n.require(x_.is_float(), "X must be of floats, not ", name(out_));
    steps_ = x_.dim(0), batch_ = x_.dim(1);
  }

  // Weights (directions, gates * hidden, inputs), as LSTM, GRU and RNN have them.
  Tensors run() {
    Tensor w = n_[1].widen(), r = n_[2].widen();
    hidden_ = n_.attr("hidden_size", r.size(2));
    expect("W", w, {directions_, gates_ * hidden_, x_.size(2)});
    expect("R", r, {directions_, gates_ * hidden_, hidden_});
    bool split = cell_ == Cell::Gru && !n_.attr("linear_before_reset", 0);
    Tensor rt = r.transpose();
    step_.product = [t = split ? r.shrink(1, 0, 2 * hidden_).transpose() : rt](const Tensor& h) { return h.matmul(t); };
    if (split) step_.reset_product = [t = r.shrink(1, 2 * hidden_, hidden_).transpose()](const Tensor& h) { return h.matmul(t); };
    // (steps, batch, inputs) x (directions * gates * hidden, inputs).
    Tensor xw = x_.matmul(with_sizes(w, {directions_ * gates_ * hidden_, w.size(2)}).transpose());
    return finish(xw);
  }

  // Weights of bytes (directions, inputs, gates * hidden), scales and zero points: what is multiplied is quantized in each step, all rows of
  // a direction as one.
  Tensors run_quantized() {
    Tensor w = n_[1], r = n_[2];
    hidden_ = n_.attr("hidden_size", r.size(1));
    expect("W", w, {directions_, x_.size(2), gates_ * hidden_});
    expect("R", r, {directions_, hidden_, gates_ * hidden_});
    auto parameter = [&](size_t i) {  // one a direction, or one a column
      Tensor p = n_[i];
      n_.require((p.rank() == 1 || p.rank() == 2) && p.size(0) == directions_ && (p.rank() == 1 || p.size(1) == gates_ * hidden_), "input ", i, " is ",
                 shape_text(p.shape()), ", expected (", directions_, ") or (", directions_, ", ", gates_ * hidden_, ")");
      return p.rank() == 1 ? p.reshape(Ints{directions_, 1, 1}) : p.unsqueeze(1);
    };
    Tensor r_scale = parameter(10), r_zero = parameter(11);
    step_.product = [=](const Tensor& h) {
      Dynamic q = dynamic_quantize(h, {1, 2});
      return integer_matmul(q.y, q.zero, r, r_zero).cast(Kind::F32) * (q.scale * r_scale);
    };
    // The input of all steps is quantized as one; (inputs, directions * gates * hidden).
    i64 columns = directions_ * gates_ * hidden_;
    auto flat = [&](const Tensor& t) { return t.expand(Ints{directions_, t.size(1), gates_ * hidden_}).permute(Ints{1, 0, 2}).reshape(Ints{t.size(1), columns}); };
    Dynamic q = dynamic_quantize(x_);
    Tensor xw = integer_matmul(q.y, q.zero, flat(w), flat(parameter(9))).cast(Kind::F32) * (q.scale * flat(parameter(8)));
    return finish(xw);
  }

 private:
  void expect(const char* what, const Tensor& t, const Ints& sizes) {
    n_.require(t.sizes() == sizes, what, " is ", shape_text(t.shape()), ", expected (", join(sizes), ")");
  }

  // (directions, batch, n) with what belongs to it in the layer's layout.
  Tensor state(size_t input) {
    Shape s{idx(directions_), batch_, idx(hidden_)};
    if (!n_.has(input)) return Tensor::full(s, x_.dtype(), 0);
    Tensor t = n_[input].widen();
    n_.require(t.rank() == 3, "input ", input, " must have 3 axes, not ", t.rank());
    if (batch_first_) t = t.transpose(0, 1);
    n_.require(same_shape(t.shape(), s), "input ", input, " is ", shape_text(t.shape()), " by direction, row and element, expected ", shape_text(s));
    return t;
  }

  // Biases are added to xw where they are just added.
  Tensor with_bias(const Tensor& xw) {
    if (!n_.has(3)) return xw;
    Tensor b = n_[3].widen();
    i64 size = gates_ * hidden_;
    expect("B", b, {directions_, 2 * size});
    Tensor wb = b.shrink(1, 0, size), rb = b.shrink(1, size, size);
    if (cell_ == Cell::Gru && step_.linear_before_reset) {
      // R's bias of the last gate is multiplied by the reset gate.
      step_.reset_bias = rb.shrink(1, 2 * hidden_, hidden_).unsqueeze(1);
      rb = rb.shrink(1, 0, 2 * hidden_).pad(Ints{0, 0}, Ints{0, hidden_});
    }
    return xw + Tensor(Pool::current().fold((wb + rb).flatten().uop()));
  }

  Tensors finish(Tensor xw) {
    step_.clip = n_.attr("clip", 0.0f);
    step_.input_forget = n_.attr("input_forget", 0);
    step_.linear_before_reset = n_.attr("linear_before_reset", 0);
    std::vector<std::string> defaults = cell_ == Cell::Rnn   ? std::vector<std::string>{"Tanh"}
                                        : cell_ == Cell::Gru ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                             : std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"};
    step_.activations =
        rnn_activations(n_.attr_strings("activations"), n_.attr_floats("activation_alpha"), n_.attr_floats("activation_beta"), defaults, directions_);
    if (cell_ == Cell::Lstm && n_.has(7)) {
      expect("P", n_[7], {directions_, 3 * hidden_});
      step_.peephole = n_[7].widen().unsqueeze(1);
    }
    if (n_.has(4) && !all_steps(4)) {
      lengths_ = n_[4].cast(Kind::I32);
      n_.require(lengths_.rank() == 1 && lengths_.dim(0) == batch_, "sequence_lens is ", shape_text(lengths_.shape()), ", expected (", batch_.str(), ")");
    }
    // (steps, directions, batch, gates * hidden)
    xw = with_bias(xw).reshape(Shape{steps_, batch_, idx(directions_), idx(gates_ * hidden_)}).permute(Ints{0, 2, 1, 3}).contiguous();
    Tensors carried{state(5)};
    if (cell_ == Cell::Lstm) carried.push_back(state(6));
    Tensor y;
    if (steps_.is_const(1)) {
      Tensors next = step(xw, idx(0), carried, &y);
      carried = next;
      y = y.unsqueeze(0);
    } else {
      i64 id = Pool::current().next_loop();
      std::vector<UOp> init, next_u;
      Tensors begin;
      for (size_t i = 0; i < carried.size(); i++) {
        init.push_back(carried[i].uop());
        begin.push_back(tensor::carry({id, i64(i)}, carried[i].dtype(), carried[i].shape()));
      }
      for (const Tensor& t : step(xw, tensor::step(id, steps_), begin, &y)) next_u.push_back(t.uop());
      UOp yes = konst(Kind::Bool, 1), scan = y.uop();
      bool all = n_.wants(0);
      UOp loop = tensor::loop(id, steps_, yes, init, yes, next_u, std::span<const UOp>(&scan, all ? 1 : 0));
      for (size_t i = 0; i < carried.size(); i++) carried[i] = tensor::get(loop, i64(i));
      y = all ? Tensor(tensor::get(loop, i64(init.size()))) : Tensor();
    }
    return outputs(y, carried);
  }

  // Is sequence_lens a constant that says that every row has all steps?
  bool all_steps(size_t i) {
    if (!n_.is_constant(i) || !steps_.is_const()) return false;
    Ints v = n_.ints(i);
    return std::all_of(v.begin(), v.end(), [&](i64 l) { return l == steps_.as_int(); });
  }

  // Which step of the input direction and row see in round t: (directions, batch, 1), or shorter axes. Row lengths are those of an index dtype.
  Tensor place(const Tensor& t) {
    if (!reverse_ && !both_) return t;
    Tensor last = lengths_ ? (lengths_.cast(Kind::Index) - Tensor(idx(1))).reshape(Shape{idx(1), batch_, idx(1)}) : Tensor(steps_ - 1);
    Tensor back = last - t;
    if (lengths_) back = where(back.lt(back.like(0)), t, back);
    return both_ ? where(first_direction(), t, back) : back;
  }
  Tensor first_direction() { return Tensor::arange(2, Kind::Index).eq(Tensor(idx(0))).reshape(Ints{2, 1, 1}); }

  // x[place, direction, row, element] for a place of shape s or one that broadcasts to it.
  static Tensor at(const Tensor& x, const Tensor& place, const Shape& s) {
    std::vector<UOp> index{place.expand(s).uop()};
    size_t skip = s.size() - 3;
    for (size_t a = skip; a < s.size(); a++) {
      Shape one(s.size(), idx(1));
      one[a] = s[a];
      index.push_back(Tensor(tensor::iota(s[a])).reshape(one).expand(s).uop());
    }
    return tensor::gather(x.uop(), index);
  }

  Tensors step(const Tensor& xw, UOp t, const Tensors& state, Tensor* y) {
    Tensor now(t), x;
    Shape s(xw.shape().begin() + 1, xw.shape().end());
    if (lengths_ || both_) {
      x = at(xw, place(now), s);
    } else {
      UOp from = reverse_ ? steps_ - 1 - t : t;
      x = Tensor(tensor::slice(xw.uop(), 0, from, from + 1)).squeeze(0);
    }
    Tensors next;
    if (cell_ == Cell::Lstm) {
      auto [h, c] = step_.lstm(x, state[0], state[1]);
      next = {h, c};
    } else {
      next = {cell_ == Cell::Gru ? step_.gru(x, state[0]) : step_.rnn(x, state[0])};
    }
    *y = next[0];
    if (lengths_) {
      Tensor inside = now.lt(lengths_.cast(Kind::Index)).reshape(Shape{idx(1), batch_, idx(1)});
      *y = where(inside, next[0], next[0].like(0));
      for (size_t i = 0; i < next.size(); i++) next[i] = where(inside, next[i], state[i]);
    }
    return next;
  }

  // y: (steps, directions, batch, hidden) by rounds.
  Tensors outputs(Tensor y, const Tensors& last) {
    Tensors out{Tensor()};
    if (n_.wants(0)) {
      if (reverse_ || both_) {
        if (!lengths_ && !both_) {
          y = y.flip(Ints{0});
        } else {
          Tensor t = Tensor(tensor::iota(steps_)).reshape(Shape{steps_, idx(1), idx(1), idx(1)});
          Tensor turned = at(y, place(t), y.shape());
          if (lengths_) turned = where(t.lt(lengths_.cast(Kind::Index).reshape(Shape{idx(1), idx(1), batch_, idx(1)})), turned, turned.like(0));
          y = turned;
        }
      }
      y = y.cast(out_);
      out[0] = batch_first_ ? y.permute(Ints{2, 0, 1, 3}) : y;
    }
    for (Tensor t : last) {
      if (lengths_) t = where(lengths_.eq(lengths_.like(0)).reshape(Shape{idx(1), batch_, idx(1)}), t.like(0), t);
      t = t.cast(out_);
      out.push_back(batch_first_ ? t.transpose(0, 1) : t);
    }
    return out;
  }

  OnnxNode& n_;
  Cell cell_;
  i64 gates_, directions_ = 1, hidden_ = 0;
  bool reverse_ = false, both_ = false, batch_first_ = false;
  Tensor x_, lengths_;
  DType out_;
  UOp steps_, batch_;
  RnnCell step_;
};

constexpr OnnxOp kRnnOps[] = {
    {"GRU", 7, [](OnnxNode& n) { return Layer(n, Cell::Gru).run(); }},
    {"LSTM", 7, [](OnnxNode& n) { return Layer(n, Cell::Lstm).run(); }},
    {"RNN", 7, [](OnnxNode& n) { return Layer(n, Cell::Rnn).run(); }},
};
constexpr OnnxOp kMsRnnOps[] = {
    {"DynamicQuantizeLSTM", 1, [](OnnxNode& n) { return Layer(n, Cell::Lstm).run_quantized(); }},
};

}  // namespace

std::span<const OnnxOp> rnn_ops() { return kRnnOps; }
std::span<const OnnxOp> ms_rnn_ops() { return kMsRnnOps; }

}  // namespace tg
