// Recurrent layers and attention: gradients against finite differences for every attribute that changes the formula,
// what lengths, directions and masks mean, and what is refused. Values come from PyTorch and Keras, in
// tests/conformance/ops.
#include <cmath>

#include "engine/layers/attention.h"
#include "engine/layers/recurrent.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/gradient_check.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using testing::BuildFn;
using testing::CheckGradients;
using testing::GradientCheckOptions;
using ::testing::HasSubstr;
using testing::Ints;
using testing::KnownShapes;
using testing::RunOp;

Tensor X(Shape shape, uint64_t seed) { return testing::RandomTensor(std::move(shape), seed, -1, 1); }
Tensor None(DType dtype = DType::kFloat64) { return Tensor(dtype, Shape{0}); }

struct Case {
  std::string name;
  std::vector<Tensor> inputs;
  BuildFn build;
  GradientCheckOptions options = {};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class SequenceGradient : public ::testing::TestWithParam<Case> {};

TEST_P(SequenceGradient, EqualsFiniteDifference) {
  const Case& c = GetParam();
  const Status status = CheckGradients(c.inputs, c.build, c.options);
  EXPECT_OK(status);
}

// `outputs` of the op, whose floating inputs are x with constants put in at their places.
BuildFn Op(std::string op, AttrMap attrs, int outputs, std::map<size_t, Tensor> constants = {}) {
  return [=](const Scope& scope, const std::vector<Output>& x) {
    std::vector<Output> inputs;
    size_t next = 0;
    for (size_t place = 0; place < x.size() + constants.size(); ++place) {
      const auto constant = constants.find(place);
      inputs.push_back(constant != constants.end() ? scope.Const(constant->second) : x[next++]);
    }
    Node* node = scope.AddNode(op, inputs, attrs);
    std::vector<Output> results;
    for (int port = 0; node != nullptr && port < outputs; ++port) results.push_back(node->output(port));
    return results;
  };
}

std::vector<Case> RecurrentCases() {
  constexpr int64_t kTime = 3, kBatch = 2, kUnits = 2;
  GradientCheckOptions known;  // of the units
  known.known_shapes = {KnownShapes::kAll, KnownShapes::kAllButBatch};
  std::vector<Case> cases;
  struct Variant {
    std::string name;
    AttrMap attrs;
    std::vector<int32_t> lengths;
  };
  std::vector<Variant> variants = {
      {"Plain", {}, {}},
      {"TimeMajor", {{"time_major", true}}, {}},
      {"Reverse", {{"reverse", true}}, {}},
      {"Lengths", {}, {3, 1}},
      {"ReverseLengths", {{"reverse", true}}, {2, 3}},
      {"TimeMajorReverseLengths", {{"time_major", true}, {"reverse", true}}, {0, 2}},
      {"Clip", {{"clip", 0.6f}}, {}},
  };
  for (const std::string activation : {"sigmoid", "softsign", "softplus", "elu", "leaky_relu", "linear"})
    variants.push_back({"Activation_" + activation, {{"activation", activation}}, {}});
  for (const Variant& v : variants) {
    const bool time_major = v.attrs.contains("time_major");
    const auto rows = [&](int64_t width) {
      return time_major ? Shape{kTime, kBatch, width} : Shape{kBatch, kTime, width};
    };
    const Tensor lengths = v.lengths.empty() ? None(DType::kInt32) : Ints(v.lengths);
    cases.push_back({"LSTM_" + v.name,
                     {X(rows(4 * kUnits), 1), X({kUnits, 4 * kUnits}, 2), X({kBatch, kUnits}, 3),
                      X({kBatch, kUnits}, 4), X({3 * kUnits}, 5)},
                     Op("LSTM", v.attrs, 3, {{5, lengths}})});
    for (const bool after : {true, false}) {
      AttrMap attrs = v.attrs;
      attrs["reset_after"] = after;
      cases.push_back({fmt::format("GRU_{}_{}", v.name, after ? "ResetAfter" : "ResetBefore"),
                       {X(rows(3 * kUnits), 6), X({kUnits, 3 * kUnits}, 7), X({3 * kUnits}, 8), X({kBatch, kUnits}, 9)},
                       Op("GRU", attrs, 2, {{4, lengths}}),
                       after ? GradientCheckOptions{} : known});
    }
    cases.push_back({"SimpleRNN_" + v.name,
                     {X(rows(kUnits), 10), X({kUnits, kUnits}, 11), X({kBatch, kUnits}, 12)},
                     Op("SimpleRNN", v.attrs, 2, {{3, lengths}})});
  }
  cases.push_back({"LSTM_NothingOptional",
                   {X({kBatch, kTime, 4 * kUnits}, 1), X({kUnits, 4 * kUnits}, 2)},
                   Op("LSTM", {}, 3, {{2, None()}, {3, None()}, {4, None()}, {5, None(DType::kInt32)}})});
  for (const std::string gate : {"hard_sigmoid", "softsign"})
    cases.push_back({"LSTM_Gate_" + gate,
                     {X({kBatch, kTime, 4 * kUnits}, 13), X({kUnits, 4 * kUnits}, 14)},
                     Op("LSTM", {{"recurrent_activation", gate}, {"output_activation", std::string("softsign")}}, 3,
                        {{2, None()}, {3, None()}, {4, None()}, {5, None(DType::kInt32)}})});
  cases.push_back({"GRU_NothingOptional",
                   {X({kBatch, kTime, 3 * kUnits}, 15), X({kUnits, 3 * kUnits}, 16)},
                   Op("GRU", {}, 2, {{2, None()}, {3, None()}, {4, None(DType::kInt32)}})});
  cases.push_back({"SimpleRNN_NothingOptional_Relu",
                   {X({kBatch, kTime, kUnits}, 17), X({kUnits, kUnits}, 18)},
                   Op("SimpleRNN", {{"activation", std::string("relu")}}, 2, {{2, None()}, {3, None(DType::kInt32)}})});
  // One output alone reaches the loss.
  cases.push_back(
      {"LSTM_FinalStateAlone",
       {X({kBatch, kTime, 4 * kUnits}, 19), X({kUnits, 4 * kUnits}, 20)},
       [](const Scope& scope, const std::vector<Output>& x) {
         const Output none = scope.Const(None());
         Node* node = scope.AddNode("LSTM", {x[0], x[1], none, none, none, scope.Const(None(DType::kInt32))});
         return std::vector<Output>{node != nullptr ? node->output(1) : Output{}};
       }});
  for (const std::string layer : {"LSTM", "GRU", "SimpleRNN"}) {
    const int64_t gates = layer == "LSTM" ? 4 : layer == "GRU" ? 3 : 1;
    cases.push_back({layer + "_Built",
                     {X({kBatch, kTime, 3}, 21), X({3, gates * kUnits}, 22), X({kUnits, gates * kUnits}, 23),
                      X({gates * kUnits}, 24), X({gates * kUnits}, 25)},
                     [layer](const Scope& scope, const std::vector<Output>& x) {
                       RecurrentInputs inputs;
                       inputs.x = x[0], inputs.kernel = x[1], inputs.recurrent_kernel = x[2];
                       inputs.bias = x[3], inputs.recurrent_bias = x[4];
                       const RecurrentOutputs out = layer == "LSTM"  ? BuildLstm(scope, inputs)
                                                    : layer == "GRU" ? BuildGru(scope, inputs)
                                                                     : BuildSimpleRnn(scope, inputs);
                       return std::vector<Output>{out.output, out.final_h};
                     }});
  }
  return cases;
}

std::vector<Case> AttentionCases() {
  std::vector<Case> cases;
  const std::vector<Tensor> inputs = {X({2, 2, 3, 2}, 30), X({2, 2, 4, 2}, 31), X({2, 2, 4, 3}, 32)};
  const auto attention = [](AttrMap attrs, Tensor mask) {
    return Op("ScaledDotProductAttention", std::move(attrs), 1, {{3, std::move(mask)}});
  };
  const Tensor none = None(DType::kBool);
  Tensor seen(DType::kBool, Shape{2, 1, 1, 4});
  for (size_t i = 0; i < 8; ++i) seen.flat<bool>()[i] = i % 3 != 1;
  Tensor nothing(DType::kBool, Shape{3, 1});  // the second query sees no key
  nothing.flat<bool>()[0] = nothing.flat<bool>()[2] = true;
  cases.push_back({"Attention_Plain", inputs, attention({}, none)});
  cases.push_back({"Attention_Causal", inputs, attention({{"causal", true}}, none)});
  cases.push_back(
      {"Attention_CausalOffset", inputs, attention({{"causal", true}, {"causal_offset", int64_t{1}}}, none)});
  cases.push_back(
      {"Attention_CausalBefore", inputs, attention({{"causal", true}, {"causal_offset", int64_t{-1}}}, none)});
  cases.push_back({"Attention_Scale", inputs, attention({{"scale", 1.5f}}, none)});
  cases.push_back({"Attention_Softcap", inputs, attention({{"softcap", 0.8f}, {"scale", 2.0f}}, none)});
  cases.push_back({"Attention_BoolMask", inputs, attention({}, seen)});
  cases.push_back({"Attention_NothingSeen", inputs, attention({}, nothing)});
  cases.push_back({"Attention_MaskCausalSoftcap", inputs, attention({{"causal", true}, {"softcap", 2.0f}}, seen)});
  cases.push_back({"Attention_GroupedQueries",
                   {X({1, 4, 2, 2}, 33), X({1, 2, 3, 2}, 34), X({1, 2, 3, 2}, 35)},
                   attention({}, none)});
  for (const auto& [name, shape] : std::vector<std::pair<std::string, Shape>>{
           {"Full", {2, 2, 3, 4}}, {"Heads", {2, 1, 1}}, {"Keys", {4}}, {"Column", {3, 1}}, {"Batch", {2, 1, 3, 4}}}) {
    std::vector<Tensor> with = inputs;
    with.push_back(X(shape, 36));
    cases.push_back({"Attention_AddedMask" + name, with, Op("ScaledDotProductAttention", {{"causal", true}}, 1)});
    cases.back().options.known_shapes = {KnownShapes::kAll};  // broadcasting asks for sizes
  }
  cases.push_back({"Attention_MultiHead",
                   {X({2, 3, 8}, 37), X({2, 4, 4}, 38), X({2, 4, 6}, 39)},
                   [](const Scope& scope, const std::vector<Output>& x) {
                     AttentionOptions options;
                     options.heads = 4;
                     options.key_value_heads = 2;
                     options.causal = true;
                     return std::vector<Output>{MultiHeadAttention(scope, x[0], x[1], x[2], options)};
                   }});
  cases.back().options.known_shapes = {KnownShapes::kAll, KnownShapes::kAllButBatch};
  return cases;
}

std::vector<Case> CellCases() {
  GradientCheckOptions both;  // gradients of gradients; the number of inputs is known
  both.second_order = true;
  both.known_shapes = {KnownShapes::kAll, KnownShapes::kAllButBatch};
  const std::vector<Tensor> lstm = {X({2, 3}, 40), X({2, 2}, 41), X({2, 2}, 42), X({5, 8}, 43),
                                    X({2}, 44),    X({2}, 45),    X({2}, 46),    X({8}, 47)};
  std::vector<Case> cases = {
      {"LSTMBlockCell_Plain", lstm, Op("LSTMBlockCell", {}, 7), both},
      {"LSTMBlockCell_Peephole", lstm, Op("LSTMBlockCell", {{"use_peephole", true}, {"forget_bias", 0.5f}}, 7), both},
      {"LSTMBlockCell_Clip", lstm, Op("LSTMBlockCell", {{"use_peephole", true}, {"cell_clip", 0.15f}}, 7), {}},
      {"LSTMBlockCell_NoClip", lstm, Op("LSTMBlockCell", {{"cell_clip", 0.0f}}, 7), both},
      {"GRUBlockCell",
       {X({2, 3}, 50), X({2, 2}, 51), X({5, 4}, 52), X({5, 2}, 53), X({4}, 54), X({2}, 55)},
       Op("GRUBlockCell", {}, 4),
       both},
  };
  cases[2].options.known_shapes = both.known_shapes;
  // Sequences of three steps, of which two count.
  GradientCheckOptions widths;
  widths.known_shapes = both.known_shapes;
  for (const std::string op : {"BlockLSTM", "BlockLSTMV2"})
    for (const auto& [name, attrs] : std::vector<std::pair<std::string, AttrMap>>{
             {"Plain", {}}, {"Peephole", {{"use_peephole", true}}}, {"Clip", {{"cell_clip", 0.15f}}}})
      cases.push_back({op + "_" + name,
                       {X({3, 2, 3}, 60), X({2, 2}, 61), X({2, 2}, 62), X({5, 8}, 63), X({2}, 64), X({2}, 65),
                        X({2}, 66), X({8}, 67)},
                       [op = op, attrs = attrs](const Scope& scope, const std::vector<Output>& x) {
                         std::vector<Output> inputs = {scope.Const(Tensor::Scalar<int64_t>(2))};
                         inputs.insert(inputs.end(), x.begin(), x.end());
                         Node* node = scope.AddNode(op, inputs, attrs);
                         if (node == nullptr) return std::vector<Output>{};
                         return std::vector<Output>{node->output(1), node->output(6)};
                       },
                       widths});
  // Outputs that reach the loss alone.
  for (const int port : {1, 6})
    cases.push_back({fmt::format("LSTMBlockCell_OutputAlone{}", port), lstm,
                     [port](const Scope& scope, const std::vector<Output>& x) {
                       Node* node = scope.AddNode("LSTMBlockCell", x, {{"use_peephole", true}});
                       return std::vector<Output>{node != nullptr ? node->output(port) : Output{}};
                     },
                     both});
  return cases;
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Recurrent, SequenceGradient, ::testing::ValuesIn(RecurrentCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Cells, SequenceGradient, ::testing::ValuesIn(CellCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Attention, SequenceGradient, ::testing::ValuesIn(AttentionCases()), CaseName);

// ---- What attributes mean
// --------------------------------------------------------------------------------------------

std::vector<Tensor> LstmInputs(DType lengths_type, std::vector<int64_t> lengths, int64_t steps = 4) {
  Tensor ends(lengths_type, Shape{static_cast<int64_t>(lengths.size())});
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths_type == DType::kInt64) {
      ends.flat<int64_t>()[i] = lengths[i];
    } else {
      ends.flat<int32_t>()[i] = static_cast<int32_t>(lengths[i]);
    }
  }
  return {testing::RandomTensor<float>({2, steps, 20}, 1),
          testing::RandomTensor<float>({5, 20}, 2),
          None(DType::kFloat32),
          None(DType::kFloat32),
          None(DType::kFloat32),
          ends};
}

TEST(Lstm, BeyondItsLength_OutputIsZeroAndStateHolds) {
  for (const DType type : {DType::kInt32, DType::kInt64}) {
    const auto run = RunOp("LSTM", LstmInputs(type, {4, 2}));
    ASSERT_OK(run);
    const auto output = run->outputs[0].flat<float>(), final_h = run->outputs[1].flat<float>();
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(final_h[i], output[3 * 5 + i]);
      EXPECT_EQ(final_h[5 + i], output[20 + 5 + i]);  // the second sequence's step 1
      EXPECT_EQ(output[20 + 10 + i], 0);
      EXPECT_EQ(output[20 + 15 + i], 0);
    }
  }
}

TEST(Lstm, ReversedSequence_IsThatOfTheTurnedInput) {
  const auto inputs = LstmInputs(DType::kInt32, {3, 3}, 3);
  auto turned = inputs;
  turned[0] = Tensor(DType::kFloat32, inputs[0].shape());
  for (size_t b = 0; b < 2; ++b)
    for (size_t t = 0; t < 3; ++t)
      std::copy_n(inputs[0].flat<float>().data() + (b * 3 + t) * 20, 20,
                  turned[0].flat<float>().data() + (b * 3 + 2 - t) * 20);
  const auto reverse = RunOp("LSTM", inputs, {{"reverse", true}}), forward = RunOp("LSTM", turned);
  ASSERT_OK(reverse);
  ASSERT_OK(forward);
  for (size_t b = 0; b < 2; ++b)
    for (size_t t = 0; t < 3; ++t)
      for (size_t i = 0; i < 5; ++i)
        EXPECT_EQ(reverse->outputs[0].flat<float>()[(b * 3 + t) * 5 + i],
                  forward->outputs[0].flat<float>()[(b * 3 + 2 - t) * 5 + i]);
}

TEST(Lstm, LengthOutOfRange_IsRefused) {
  EXPECT_THAT(Message(RunOp("LSTM", LstmInputs(DType::kInt64, {4, 5})).status()),
              HasSubstr("sequence_lengths[1] is 5, but a sequence has 0 to 4 steps"));
  EXPECT_THAT(Message(RunOp("LSTM", LstmInputs(DType::kInt32, {-1, 4})).status()),
              HasSubstr("sequence_lengths[0] is -1, but a sequence has 0 to 4 steps"));
}

std::string Refusal(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
  return testing::ErrorOf(RunOp(op, inputs, std::move(attrs)));
}

TEST(Lstm, UnfitOperands_AreRefused) {
  const auto with = [](size_t place, Tensor tensor) {
    auto inputs = LstmInputs(DType::kInt32, {4, 2});
    inputs[place] = std::move(tensor);
    return Refusal("LSTM", inputs);
  };
  EXPECT_THAT(with(0, Tensor(DType::kFloat32, {2, 4, 22})),
              HasSubstr("projection must be 4 times the units long, but is 22"));
  EXPECT_THAT(with(1, Tensor(DType::kFloat32, {4, 20})), HasSubstr("recurrent_kernel has 4 units, where an earlier"));
  EXPECT_THAT(with(2, Tensor(DType::kFloat32, {3, 5})), HasSubstr("initial_h has 3 sequences"));
  EXPECT_THAT(with(3, Tensor(DType::kFloat32, {2, 6})), HasSubstr("initial_c has 6 units"));
  EXPECT_THAT(with(4, Tensor(DType::kFloat32, {5})), HasSubstr("peephole must be 3 times the units long, but is 5"));
  EXPECT_THAT(with(5, Ints({1, 2, 3})), HasSubstr("sequence_lengths has 3 sequences"));
  EXPECT_THAT(Refusal("LSTM", LstmInputs(DType::kInt32, {4, 2}), {{"clip", -1.0f}}), HasSubstr("clip is -1"));
  EXPECT_NE(Refusal("LSTM", LstmInputs(DType::kInt32, {4, 2}), {{"activation", std::string("cos")}}), "no error");
}

TEST(Gru, UnfitOperands_AreRefused) {
  const std::vector<Tensor> fit = {Tensor(DType::kFloat32, {2, 4, 6}), Tensor(DType::kFloat32, {2, 6}),
                                   Tensor(DType::kFloat32, {6}), Tensor(DType::kFloat32, {2, 2}), Ints({1, 2})};
  EXPECT_EQ(Refusal("GRU", fit), "no error");
  auto inputs = fit;
  inputs[2] = Tensor(DType::kFloat32, {2});
  EXPECT_THAT(Refusal("GRU", inputs), HasSubstr("recurrent_bias must be 3 times the units long, but is 2"));
  inputs = fit;
  inputs[0] = Tensor(DType::kFloat32, {4, 6});
  EXPECT_NE(Refusal("GRU", inputs), "no error");
}

TEST(LstmBlockCell, UnfitOperands_AreRefused) {
  const std::vector<Tensor> fit = {Tensor(DType::kFloat32, {2, 3}), Tensor(DType::kFloat32, {2, 4}),
                                   Tensor(DType::kFloat32, {2, 4}), Tensor(DType::kFloat32, {7, 16}),
                                   Tensor(DType::kFloat32, {4}),    Tensor(DType::kFloat32, {4}),
                                   Tensor(DType::kFloat32, {4}),    Tensor(DType::kFloat32, {16})};
  EXPECT_EQ(Refusal("LSTMBlockCell", fit), "no error");
  const auto with = [&](size_t place, Shape shape) {
    auto inputs = fit;
    inputs[place] = Tensor(DType::kFloat32, std::move(shape));
    return Refusal("LSTMBlockCell", inputs);
  };
  EXPECT_THAT(with(1, {3, 4}), HasSubstr("axis 0 of cs_prev has 3 elements, where an earlier input has 2"));
  EXPECT_THAT(with(3, {6, 16}), HasSubstr("w has 6 rows, where x has 3 columns and the state 4"));
  EXPECT_THAT(with(3, {7, 12}), HasSubstr("w must be 4 times the units long, 16, but is 12"));
  EXPECT_THAT(with(7, {4}), HasSubstr("b must be 4 times the units long, 16, but is 4"));
}

TEST(Recurrent, PortableKernels_AgreeWithTheFastOnes) {
  KernelPolicy portable;
  portable.portable = true;
  for (const std::string op : {"LSTM", "GRU", "SimpleRNN"}) {
    const int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1, units = 19;
    std::vector<Tensor> inputs = {testing::RandomTensor<float>({3, 5, gates * units}, 1),
                                  testing::RandomTensor<float>({units, gates * units}, 2)};
    for (int i = 0; i < (op == "LSTM" ? 3 : op == "GRU" ? 2 : 1); ++i) inputs.push_back(None(DType::kFloat32));
    inputs.push_back(Ints({5, 2, 4}));
    const auto fast = RunOp(op, inputs, {}, {}, {}, 4), plain = RunOp(op, inputs, {}, portable);
    ASSERT_OK(fast);
    ASSERT_OK(plain);
    EXPECT_NE(fast->implementation, plain->implementation);
    for (size_t i = 0; i < fast->outputs.size(); ++i)
      testing::ExpectNear<float>(fast->outputs[i], testing::AsDoubles<float>(plain->outputs[i]), 1e-5, op);
  }
}

TEST(BlockLstm, UnfitOperands_AreRefused) {
  const std::vector<Tensor> fit = {
      Tensor::Scalar<int64_t>(3),      Tensor(DType::kFloat32, {3, 2, 5}), Tensor(DType::kFloat32, {2, 4}),
      Tensor(DType::kFloat32, {2, 4}), Tensor(DType::kFloat32, {9, 16}),   Tensor(DType::kFloat32, {4}),
      Tensor(DType::kFloat32, {4}),    Tensor(DType::kFloat32, {4}),       Tensor(DType::kFloat32, {16})};
  EXPECT_EQ(Refusal("BlockLSTMV2", fit), "no error");
  const auto with = [&](size_t place, Tensor tensor) {
    auto inputs = fit;
    inputs[place] = std::move(tensor);
    return Refusal("BlockLSTMV2", inputs);
  };
  EXPECT_THAT(with(0, Tensor::Scalar<int64_t>(4)), HasSubstr("seq_len_max is 4, but x has 3 steps"));
  EXPECT_THAT(with(2, Tensor(DType::kFloat32, {3, 4})), HasSubstr("the batch of cs_prev is 3"));
  EXPECT_THAT(with(4, Tensor(DType::kFloat32, {8, 16})), HasSubstr("the number of rows of w is 8"));
  EXPECT_THAT(with(6, Tensor(DType::kFloat32, {5})), HasSubstr("the length of wcf is 5"));
  EXPECT_THAT(with(8, Tensor(DType::kFloat32, {12})), HasSubstr("the length of b is 12"));
}

TEST(Recurrent, NothingToWalk_LeavesTheStateAsItWas) {
  for (const auto& [steps, batch] : {std::pair<int64_t, int64_t>{0, 2}, {3, 0}}) {
    const Tensor h = testing::RandomTensor<float>({batch, 3}, 5);
    const auto run =
        RunOp("LSTM", {Tensor(DType::kFloat32, {batch, steps, 12}), testing::RandomTensor<float>({3, 12}, 2), h, h,
                       None(DType::kFloat32), None(DType::kInt32)});
    ASSERT_OK(run);
    for (const size_t port : {1, 2})
      testing::ExpectNear<float>(run->outputs[port], testing::AsDoubles<float>(h), 0, "state");
  }
}

// Through the float kernels, with inputs and outputs rounded.
TEST(Recurrent, SixteenBits_AreThoseOfFloatsRounded) {
  const auto rounded = [](const Tensor& from, DType dtype) {
    return RunOp("Cast", {from}, {{"DstT", dtype}})->outputs[0];
  };
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const std::string op : {"LSTM", "ScaledDotProductAttention"}) {
      std::vector<Tensor> floats, small;
      const auto add = [&](const Tensor& tensor) {
        small.push_back(rounded(tensor, dtype));
        floats.push_back(rounded(small.back(), DType::kFloat32));
      };
      if (op == "LSTM") {
        add(testing::RandomTensor<float>({2, 4, 12}, 1));
        add(testing::RandomTensor<float>({3, 12}, 2));
        for (int i = 0; i < 3; ++i) add(None(DType::kFloat32));
      } else {
        for (uint32_t i = 1; i < 4; ++i) add(testing::RandomTensor<float>({2, 2, 4, 6}, i));
        add(testing::RandomTensor<float>({4}, 4));  // a mask that is added
      }
      if (op == "LSTM")
        for (auto* inputs : {&floats, &small}) inputs->push_back(Ints({4, 2}));
      const auto exact = RunOp(op, floats), half = RunOp(op, small);
      ASSERT_OK(exact);
      ASSERT_OK(half);
      EXPECT_EQ(half->outputs[0].dtype(), dtype);
      const Tensor wide = rounded(half->outputs[0], DType::kFloat32);
      testing::ExpectNear<float>(
          wide, testing::AsDoubles<float>(rounded(rounded(exact->outputs[0], dtype), DType::kFloat32)), 0, op);
    }
  }
}

std::vector<Tensor> AttentionInputs(int64_t time, int64_t keys) {
  return {testing::RandomTensor<float>({1, 2, time, 8}, 1), testing::RandomTensor<float>({1, 2, keys, 8}, 2),
          testing::RandomTensor<float>({1, 2, keys, 8}, 3), None(DType::kBool)};
}

TEST(Attention, MoreQueriesThanABlock_EachSeesWhatItWouldAlone) {
  auto inputs = AttentionInputs(70, 50);
  const auto whole = RunOp("ScaledDotProductAttention", inputs, {{"causal", true}});
  ASSERT_OK(whole);
  for (const int64_t t : {0, 31, 32, 69}) {
    auto one = inputs;
    one[0] = Tensor(DType::kFloat32, {1, 2, 1, 8});
    for (int64_t h = 0; h < 2; ++h)
      std::copy_n(inputs[0].flat<float>().data() + (h * 70 + t) * 8, 8, one[0].flat<float>().data() + h * 8);
    const auto alone = RunOp("ScaledDotProductAttention", one, {{"causal", true}, {"causal_offset", t}});
    ASSERT_OK(alone);
    for (size_t h = 0; h < 2; ++h)
      for (size_t i = 0; i < 8; ++i)
        EXPECT_EQ(whole->outputs[0].flat<float>()[(h * 70 + static_cast<size_t>(t)) * 8 + i],
                  alone->outputs[0].flat<float>()[h * 8 + i]);
  }
}

TEST(Attention, LargeScores_StayFinite) {
  auto inputs = AttentionInputs(3, 5);
  for (float& value : inputs[0].flat<float>()) value *= 1e4f;
  const auto run = RunOp("ScaledDotProductAttention", inputs);
  ASSERT_OK(run);
  for (const float value : run->outputs[0].flat<float>()) EXPECT_TRUE(std::isfinite(value) && std::abs(value) <= 1);
}

TEST(Attention, NoKeysOrQueries_GiveZerosOrNothing) {
  const auto no_keys = RunOp("ScaledDotProductAttention", AttentionInputs(3, 0));
  ASSERT_OK(no_keys);
  for (const float value : no_keys->outputs[0].flat<float>()) EXPECT_EQ(value, 0);
  const auto no_queries = RunOp("ScaledDotProductAttention", AttentionInputs(0, 4));
  ASSERT_OK(no_queries);
  EXPECT_EQ(no_queries->outputs[0].elements(), 0);
}

TEST(Attention, NaN_StaysInItsRow) {
  auto inputs = AttentionInputs(3, 20);
  inputs[0].flat<float>()[8] = std::nanf("");  // query 1 of head 0
  const auto run = RunOp("ScaledDotProductAttention", inputs);
  ASSERT_OK(run);
  const auto values = run->outputs[0].flat<float>();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(values[i]), i >= 8 && i < 16) << i;
}

TEST(Attention, UnfitOperands_AreRefused) {
  const auto with = [](size_t place, Tensor tensor, AttrMap attrs = {}) {
    auto inputs = AttentionInputs(3, 5);
    inputs[place] = std::move(tensor);
    return Refusal("ScaledDotProductAttention", inputs, std::move(attrs));
  };
  EXPECT_THAT(with(0, Tensor(DType::kFloat32, {2, 2, 3, 8})),
              HasSubstr("the batches of query and key differ: 2 and 1"));
  EXPECT_THAT(with(0, Tensor(DType::kFloat32, {1, 2, 3, 7})), HasSubstr("the depths of query and key differ: 7 and 8"));
  EXPECT_THAT(with(0, Tensor(DType::kFloat32, {1, 3, 3, 8})),
              HasSubstr("3 heads of query cannot share 2 heads of key and value evenly"));
  EXPECT_THAT(with(2, Tensor(DType::kFloat32, {1, 2, 4, 8})),
              HasSubstr("the lengths of key and value differ: 5 and 4"));
  EXPECT_THAT(with(3, Tensor(DType::kBool, {3, 4})), HasSubstr("does not broadcast to the scores [1,2,3,5]"));
  EXPECT_THAT(with(3, Tensor(DType::kFloat64, {3, 5})), HasSubstr("a mask is bool or has query's type"));
  EXPECT_THAT(with(3, None(DType::kBool), {{"softcap", -2.0f}}), HasSubstr("softcap is -2"));
}

}  // namespace
}  // namespace rivulet
