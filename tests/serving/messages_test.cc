// Requests of each protocol become the same call, for all encodings of their values.
#include <cstring>

#include "proto/serving/open_inference.pb.h"
#include "proto/serving/tensorflow_serving.pb.h"
#include "serving/http_bodies.h"
#include "serving/json_values.h"
#include "serving/open_inference.h"
#include "serving/tensorflow_serving.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ServedInput kImageInput{"image", FeatureEncoding::kUint8, {DType::kFloat32, {2, 2}}, 1.0 / 255, 0};
const ServedInput kTokenInput{"tokens", FeatureEncoding::kInt64, {DType::kInt64, {3}}, 1, 10};
const std::vector<ServedInput> kBoth = {kImageInput, kTokenInput};

constexpr int64_t kMany = 1000;  // values of a body

template <typename T>
std::vector<T> ValuesOf(const WireTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof(T));
  return values;
}

inference::ModelInferRequest Request(const std::string& datatype) {
  inference::ModelInferRequest request;
  request.set_model_name("mnist");
  request.set_model_version("7");
  auto* const input = request.add_inputs();
  input->set_name("x");
  input->set_datatype(datatype);
  input->add_shape(3);
  return request;
}

TEST(OpenInference, TypedContents_AreValuesOfTheirType) {
  auto request = Request("UINT8");
  for (const uint32_t value : {0u, 255u, 7u}) request.mutable_inputs(0)->mutable_contents()->add_uint_contents(value);
  std::deque<std::string> made;
  const auto call = CallOf(request, made);
  EXPECT_OK(call);
  EXPECT_EQ(call->model, "mnist");
  EXPECT_EQ(call->version, "7");
  EXPECT_THAT(ValuesOf<uint8_t>(call->inputs[0]), ElementsAre(0, 255, 7));
  request.mutable_inputs(0)->mutable_contents()->add_uint_contents(256);
  EXPECT_THAT(CallOf(request, made).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("256")));
}

TEST(OpenInference, ValuesInTwoPlacesOrTheWrongField_AreRefused) {
  std::deque<std::string> made;
  auto both = Request("FP32");
  both.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  both.add_raw_input_contents("abcd");
  EXPECT_THAT(CallOf(both, made).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  auto wrong = Request("FP32");
  wrong.mutable_inputs(0)->mutable_contents()->add_int64_contents(1);
  EXPECT_THAT(CallOf(wrong, made).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  auto several = Request("FP32");
  several.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  several.mutable_inputs(0)->mutable_contents()->add_int64_contents(1);
  EXPECT_THAT(CallOf(several, made).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  auto half = Request("FP16");
  EXPECT_THAT(CallOf(half, made).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("raw")));
  auto missing = Request("FP32");
  missing.add_raw_input_contents("a");
  missing.add_raw_input_contents("b");
  EXPECT_THAT(CallOf(missing, made).status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(OpenInference, TenThousandInputs_AreRefused) {
  auto request = Request("FP32");
  for (int i = 0; i < 10'000; ++i) request.add_inputs()->set_datatype("FP32");
  std::deque<std::string> made;
  EXPECT_THAT(CallOf(request, made).status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

tensorflow::serving::PredictRequest Predict(proto::DataType dtype, const std::vector<int64_t>& shape) {
  tensorflow::serving::PredictRequest request;
  request.mutable_model_spec()->set_name("mnist");
  auto& tensor = (*request.mutable_inputs())["x"];
  tensor.set_dtype(dtype);
  for (const int64_t dim : shape) tensor.mutable_tensor_shape()->add_dim()->set_size(dim);
  return request;
}

TEST(TensorflowServing, LastValueFillsTheShape) {
  auto request = Predict(proto::DT_FLOAT, {2, 2});
  (*request.mutable_inputs())["x"].add_float_val(1);
  (*request.mutable_inputs())["x"].add_float_val(2);
  std::deque<std::string> made;
  const auto call = CallOf(request, made);
  EXPECT_OK(call);
  EXPECT_THAT(ValuesOf<float>(call->inputs[0]), ElementsAre(1, 2, 2, 2));
}

// A few bytes that stand for terabytes.
TEST(TensorflowServing, AbsurdShapes_AreRefusedBeforeTheyAreFilled) {
  std::deque<std::string> made;
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{1 << 30, 1 << 30}, {int64_t{1} << 62, 4}, {-1, 4}, {1 << 28, 2}}) {
    auto request = Predict(proto::DT_FLOAT, shape);
    (*request.mutable_inputs())["x"].add_float_val(1);
    EXPECT_THAT(CallOf(request, made).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(TensorflowServing, VersionLabelAndSignature) {
  auto request = Predict(proto::DT_FLOAT, {1});
  request.mutable_model_spec()->mutable_version()->set_value(0);
  EXPECT_EQ(VersionOf(request.model_spec()), "0");
  request.mutable_model_spec()->set_version_label("canary");
  EXPECT_EQ(VersionOf(request.model_spec()), "canary");
  request.mutable_model_spec()->set_signature_name("other");
  std::deque<std::string> made;
  EXPECT_THAT(CallOf(request, made).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("serving_default")));
}

TEST(HttpBodies, BinaryValuesBehindTheJson) {
  const std::string json =
      R"({"inputs":[{"name":"a","datatype":"INT32","shape":[1],"parameters":{"binary_data_size":4}},)"
      R"({"name":"b","datatype":"INT64","shape":[2],"data":[1,[2]]}]})";
  InferBody body;
  const std::string whole = json + std::string("\5\0\0\0", 4);
  EXPECT_OK(ReadInferBody(whole, fmt::format("{}", json.size()), kMany, body));
  EXPECT_THAT(ValuesOf<int32_t>(body.call.inputs[0]), ElementsAre(5));
  EXPECT_THAT(ValuesOf<int64_t>(body.call.inputs[1]), ElementsAre(1, 2));
  for (const std::string length : {"0", "1000", "-1", "x", "18446744073709551616"}) {
    InferBody other;
    EXPECT_THAT(ReadInferBody(whole, length, kMany, other), StatusIs(absl::StatusCode::kInvalidArgument)) << length;
  }
  InferBody more;
  EXPECT_THAT(ReadInferBody(whole + "x", fmt::format("{}", json.size()), kMany, more),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no input")));
}

TEST(HttpBodies, RowsAndColumns_AreTheSameCall) {
  PredictBody rows, columns;
  InferenceCall of_rows, of_columns;
  EXPECT_OK(ReadPredictBody(
      R"({"instances":[{"image":[[1,2],[3,4]],"tokens":[1,2,3]},{"tokens":[4,5,6],"image":[[5,6],[7,8]]}]})", kMany,
      kBoth, rows, of_rows));
  EXPECT_OK(ReadPredictBody(R"({"inputs":{"tokens":[[1,2,3],[4,5,6]],"image":[[[1,2],[3,4]],[[5,6],[7,8]]]}})", kMany,
                            kBoth, columns, of_columns));
  EXPECT_TRUE(rows.rows);
  EXPECT_FALSE(columns.rows);
  ASSERT_EQ(of_rows.inputs.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(of_rows.inputs[i].shape, of_columns.inputs[i].shape);
    EXPECT_EQ(of_rows.inputs[i].bytes, of_columns.inputs[i].bytes);
  }
}

TEST(HttpBodies, WhatIsNoRequest_IsRefused) {
  for (const char* const wrong :
       {"", "[]", "{}", R"({"instances":[]})", R"({"instances":[1],"inputs":[1]})", R"({"instances":[{"image":[1]}]})",
        R"({"instances":[[1,2],[3]]})", R"({"inputs":{"image":[1],"tokens":["a"]}})",
        R"({"signature_name":"x","inputs":[]})", R"({"inputs":{"image":[{"b64":"%%%"}],"tokens":[[1,2,3]]}})"}) {
    PredictBody body;
    InferenceCall call;
    EXPECT_THAT(ReadPredictBody(wrong, kMany, kBoth, body, call), StatusIs(absl::StatusCode::kInvalidArgument))
        << wrong;
  }
}

TEST(HttpBodies, MoreValuesThanABatchHas_AreCountedBeforeTheyAreRead) {
  const std::string body =
      R"({"inputs":[{"name":"a,[{\",,","datatype":"INT32","shape":[3],"data":[1,2,3]}]})";  // a string hides nothing
  InferBody request, refused;
  EXPECT_OK(ReadInferBody(body, "", 11, request));
  EXPECT_THAT(ReadInferBody(body, "", 10, refused),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("11 values, and 10 at most")));
  EXPECT_TRUE(refused.call.inputs.empty());
  const std::string binary =
      R"({"inputs":[{"name":"a","datatype":"UINT8","shape":[9],"parameters":{"binary_data_size":9}}]})";
  EXPECT_OK(ReadInferBody(binary + ",,,[[[{{{", fmt::format("{}", binary.size()), 10, refused));
  PredictBody predict;
  InferenceCall call;
  EXPECT_THAT(ReadPredictBody(std::string(1000, '['), 999, kBoth, predict, call),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1001 values")));
}

TEST(JsonValues, Base64_OfEveryLength) {
  EXPECT_EQ(*Base64Bytes(""), "");
  EXPECT_EQ(*Base64Bytes("TQ=="), "M");
  EXPECT_EQ(*Base64Bytes("TWE="), "Ma");
  EXPECT_EQ(*Base64Bytes("TWFu"), "Man");
  EXPECT_EQ(*Base64Bytes("-_8"), "\xfb\xff");
  EXPECT_THAT(Base64Bytes("TWFuT").status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(JsonValues, Floats_AreReadBackToTheBit) {
  const Tensor tensor = Tensor::Of<float>({2, 2}, {0.1f, -1e-38f, 16777217.0f, 3.4028235e38f});
  std::string text;
  AppendNested(tensor.view(), tensor.shape().dims(), 0, text);
  const auto json = Json::Parse(text);
  EXPECT_OK(json);
  EXPECT_THAT(*ShapeOf(*json), ElementsAre(2, 2));
  std::string bytes;
  EXPECT_OK(AppendValues(*json, DType::kFloat32, false, bytes));
  EXPECT_EQ(std::memcmp(bytes.data(), tensor.data(), 16), 0);
}

}  // namespace
}  // namespace rivulet
