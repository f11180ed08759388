// LSTMs and GRUs over sequences, and attention, forward and back.
#include <gtest/gtest.h>

#include "tests/engine/kernels_cuda/op_case.h"

namespace rivulet::testing {
namespace {

struct Sequences {
  int64_t batch, steps, units;
  bool time_major = false, reverse = false, states = false, lengths = false;

  Shape Rows(int64_t multiple) const {
    return time_major ? Shape{steps, batch, multiple * units} : Shape{batch, steps, multiple * units};
  }
  Shape State() const { return {batch, units}; }
  AttrMap Attrs() const { return {{"time_major", time_major}, {"reverse", reverse}}; }
  Tensor Lengths(uint32_t seed) const {
    return lengths ? Integers(DType::kInt32, {batch}, seed, 0, steps + 1) : Tensor(DType::kInt32, {0});
  }
  Tensor OrNone(const Shape& shape, uint32_t seed) const { return Floats(states ? shape : Shape{0}, seed); }
  std::string Name() const {
    return fmt::format("{} of {} steps, {} units{}{}{}{}", batch, steps, units, time_major ? ", time major" : "",
                       reverse ? ", reverse" : "", states ? ", states" : "", lengths ? ", lengths" : "");
  }
};

const std::vector<Sequences>& SomeSequences() {
  static const std::vector<Sequences> some = {{2, 3, 5},
                                              {3, 4, 7, true},
                                              {2, 3, 4, false, true, true},
                                              {4, 5, 3, true, false, true, true},
                                              {4, 5, 3, false, true, false, true},
                                              {1, 1, 20}};
  return some;
}

// Gates as they come out of a sigmoid, so that gradients are of the size they have.
Tensor Between0And1(Tensor tensor) {
  for (float& value : tensor.flat<float>()) value = value * 0.5f + 0.5f;
  return tensor;
}

TEST(GpuSequenceTest, Lstm_ForwardAndBack_AreTheCpus) {
  for (const Sequences& q : SomeSequences()) {
    CheckOnGpu({.op = "LSTM",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats(q.Rows(4), s),
                                         Floats({q.units, 4 * q.units}, s + 10),
                                         q.OrNone(q.State(), s + 20),
                                         q.OrNone(q.State(), s + 30),
                                         Floats({0}, s),
                                         q.Lengths(s + 40)};
                    },
                .attrs = q.Attrs(),
                .tolerance = 2e-6,
                .name = q.Name()});
    CheckOnGpu({.op = "LSTMGrad",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats({q.units, 4 * q.units}, s),
                                         q.OrNone(q.State(), s + 10),
                                         q.OrNone(q.State(), s + 20),
                                         Floats({0}, s),
                                         q.Lengths(s + 40),
                                         Floats(q.Rows(1), s + 50),
                                         Between0And1(Floats(q.Rows(4), s + 60)),
                                         Floats(q.Rows(1), s + 70),
                                         Floats(q.Rows(1), s + 80),
                                         Floats(q.State(), s + 90),
                                         Floats(q.State(), s + 100),
                                         q.OrNone(q.Rows(1), s + 110)};
                    },
                .attrs = q.Attrs(),
                .tolerance = 1e-5,
                .name = q.Name()});
  }
}

void CheckGru(const Sequences& q, bool reset_after) {
  AttrMap attrs = q.Attrs();
  attrs["reset_after"] = reset_after;
  CheckOnGpu({.op = "GRU",
              .inputs =
                  [&](uint32_t s) {
                    return std::vector{Floats(q.Rows(3), s), Floats({q.units, 3 * q.units}, s + 10),
                                       q.OrNone({3 * q.units}, s + 20), q.OrNone(q.State(), s + 30), q.Lengths(s + 40)};
                  },
              .attrs = attrs,
              .tolerance = 2e-6,
              .name = q.Name()});
  CheckOnGpu({.op = "GRUGrad",
              .inputs =
                  [&](uint32_t s) {
                    return std::vector{Floats({q.units, 3 * q.units}, s),
                                       q.OrNone(q.State(), s + 10),
                                       q.Lengths(s + 40),
                                       Floats(q.Rows(1), s + 50),
                                       Between0And1(Floats(q.Rows(4), s + 60)),
                                       Floats(q.Rows(1), s + 80),
                                       Floats(q.State(), s + 90)};
                  },
              .attrs = attrs,
              .tolerance = 1e-5,
              .name = q.Name()});
}

TEST(GpuSequenceTest, Gru_ForwardAndBack_AreTheCpus) {
  for (const Sequences& q : SomeSequences()) {
    CheckGru(q, true);
    CheckGru(q, false);
  }
}

TEST(GpuSequenceTest, SimpleRnn_ForwardAndBack_AreTheCpus) {
  for (const Sequences& q : SomeSequences()) {
    for (const std::string activation : {"tanh", "relu", "sigmoid"}) {
      AttrMap attrs = q.Attrs();
      attrs["activation"] = activation;
      const std::string name = q.Name() + ", " + activation;
      CheckOnGpu({.op = "SimpleRNN",
                  .inputs =
                      [&](uint32_t s) {
                        return std::vector{Floats(q.Rows(1), s), Floats({q.units, q.units}, s + 10),
                                           q.OrNone(q.State(), s + 20), q.Lengths(s + 40)};
                      },
                  .attrs = attrs,
                  .tolerance = 2e-6,
                  .name = name});
      CheckOnGpu({.op = "SimpleRNNGrad",
                  .inputs =
                      [&](uint32_t s) {
                        return std::vector{
                            Floats({q.units, q.units}, s), q.OrNone(q.State(), s + 10), q.Lengths(s + 40),
                            Floats(q.Rows(1), s + 50),     Floats(q.Rows(1), s + 60),   Floats(q.State(), s + 70)};
                      },
                  .attrs = attrs,
                  .tolerance = 1e-5,
                  .name = name});
    }
  }
}

TEST(GpuSequenceTest, SimpleRnn_OtherActivation_IsRefusedByName) {
  const Sequences q = {2, 3, 4};
  const Status status =
      PrepareOnGpu({.op = "SimpleRNN",
                    .inputs =
                        [&](uint32_t s) {
                          return std::vector{Floats(q.Rows(1), s), Floats({4, 4}, s), Floats({0}, s), q.Lengths(s)};
                        },
                    .attrs = {{"activation", std::string("elu")}}});
  EXPECT_EQ(status.message(),
            "SimpleRNN with activation 'elu' on a GPU; there is that with 'tanh', 'relu' and 'sigmoid'");
}

TEST(GpuSequenceTest, Lstm_OtherActivations_AreRefusedByName) {
  const Sequences q = {2, 3, 4};
  const auto refusal = [&](AttrMap attrs) {
    return std::string(PrepareOnGpu({.op = "LSTM",
                                     .inputs =
                                         [&](uint32_t s) {
                                           return std::vector{Floats(q.Rows(4), s), Floats({4, 16}, s), Floats({0}, s),
                                                              Floats({0}, s),       Floats({0}, s),     q.Lengths(s)};
                                         },
                                     .attrs = std::move(attrs)})
                           .message());
  };
  EXPECT_EQ(refusal({{"activation", std::string("relu")}}),
            "LSTM with activation 'relu' on a GPU; there is that with 'tanh'");
  EXPECT_EQ(refusal({{"clip", 1.0f}}), "LSTM with a clip on a GPU; leave it out");
}

TEST(GpuSequenceTest, Attention_ForwardAndBack_AreTheCpus) {
  struct Heads {
    int64_t batch, heads, shared, time, keys, depth, width;
    bool causal = false;
    int64_t offset = 0;
  };
  for (const Heads& h : std::vector<Heads>{{2, 3, 3, 5, 5, 4, 4, true},
                                           {1, 4, 2, 6, 9, 8, 5},
                                           {2, 2, 1, 20, 33, 3, 3, true, 4},
                                           {1, 2, 2, 4, 6, 3, 3, true, -2},
                                           {1, 1, 1, 40, 40, 16, 16, true}}) {
    const AttrMap attrs = {{"causal", h.causal}, {"causal_offset", h.offset}};
    const Shape query = {h.batch, h.heads, h.time, h.depth}, key = {h.batch, h.shared, h.keys, h.depth};
    const Shape value = {h.batch, h.shared, h.keys, h.width}, output = {h.batch, h.heads, h.time, h.width};
    const std::string name = fmt::format("{} {}{}", query.ToString(), key.ToString(), h.causal ? " causal" : "");
    CheckOnGpu({.op = "ScaledDotProductAttention",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats(query, s), Floats(key, s + 1), Floats(value, s + 2),
                                         Tensor(DType::kBool, {0})};
                    },
                .attrs = attrs,
                .tolerance = 2e-6,
                .name = name});
    CheckOnGpu({.op = "ScaledDotProductAttentionGrad",
                .inputs =
                    [&](uint32_t s) {
                      // Logs of sums as large as those of so many scores between -1 and 1 are.
                      Tensor log_sums = Floats({h.batch, h.heads, h.time}, s + 5);
                      for (float& sum : log_sums.flat<float>()) sum += 3;
                      return std::vector{Floats(query, s),          Floats(key, s + 1),    Floats(value, s + 2),
                                         Tensor(DType::kBool, {0}), Floats(output, s + 4), log_sums,
                                         Floats(output, s + 6)};
                    },
                .attrs = attrs,
                .tolerance = 5e-6,
                .name = name});
  }
}

TEST(GpuSequenceTest, Attention_MaskAndSoftcap_AreTheCpus) {
  const Shape query = {2, 4, 5, 3}, key = {2, 2, 6, 3}, output = {2, 4, 5, 3};
  struct Masked {
    Shape mask;
    bool added;
    float softcap;
    bool causal;
  };
  for (const Masked& m : std::vector<Masked>{{{5, 6}, false, 0, false},
                                             {{2, 1, 5, 6}, false, 0, true},
                                             {{2, 4, 1, 6}, true, 0, false},
                                             {{4, 5, 1}, true, 2, false},
                                             {{1, 6}, true, 0, true},
                                             {{0}, false, 1.5f, false}}) {
    AttrMap attrs = {{"causal", m.causal}, {"softcap", m.softcap}};
    attrs["Tmask"] = m.added ? DType::kFloat32 : DType::kBool;
    const auto mask = [&](uint32_t s) { return m.added ? Floats(m.mask, s) : Integers(DType::kBool, m.mask, s, 0, 2); };
    const std::string name = fmt::format("{} mask {}{}, softcap {}", m.added ? "added" : "bool", m.mask.ToString(),
                                         m.causal ? ", causal" : "", m.softcap);
    CheckOnGpu({.op = "ScaledDotProductAttention",
                .inputs =
                    [&](uint32_t s) {
                      return std::vector{Floats(query, s), Floats(key, s + 1), Floats(key, s + 2), mask(s + 3)};
                    },
                .attrs = attrs,
                .tolerance = 2e-6,
                .name = name});
    CheckOnGpu({.op = "ScaledDotProductAttentionGrad",
                .inputs =
                    [&](uint32_t s) {
                      Tensor log_sums = Floats({2, 4, 5}, s + 5);
                      for (float& sum : log_sums.flat<float>()) sum += 3;
                      return std::vector{Floats(query, s),      Floats(key, s + 1), Floats(key, s + 2),   mask(s + 3),
                                         Floats(output, s + 4), log_sums,           Floats(output, s + 6)};
                    },
                .attrs = attrs,
                .tolerance = 1e-5,
                .name = name});
  }
}

}  // namespace
}  // namespace rivulet::testing
