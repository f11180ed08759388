// Requests to a model server: messages of two protocols, and bodies of calls over HTTP.
#include <array>
#include <deque>

#include "proto/serving/open_inference.pb.h"
#include "proto/serving/tensorflow_serving.pb.h"
#include "serving/http_bodies.h"
#include "serving/open_inference.h"
#include "serving/tensorflow_serving.h"
#include "serving/wire_values.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

const std::array<ServedInput, 2>& ServedInputs() {
  static const auto* const inputs = new std::array<ServedInput, 2>{
      ServedInput{"image", FeatureEncoding::kUint8, {DType::kFloat32, {2, 2}}, 1.0 / 255, 0},
      ServedInput{"tokens", FeatureEncoding::kInt64, {DType::kInt64, {3}}, 1, 10}};
  return *inputs;
}

// Whether every input is one of the model's, and can be fed.
bool AllBind(const InferenceCall& call) {
  for (const WireTensor& given : call.inputs) {
    bool bound = false;
    for (const ServedInput& input : ServedInputs()) {
      if (input.name != given.name) continue;
      const auto values = Bind(input, given, 64);
      if (!values.ok()) return false;
      // All that a step would copy is read.
      const auto bytes = static_cast<size_t>(values->rows * input.row.shape.elements()) * SizeOf(input.row.dtype);
      std::string copy(reinterpret_cast<const char*>(values->data), bytes);
      bound = copy.size() == bytes;
    }
    if (!bound) return false;
  }
  return !call.inputs.empty();
}

inference::ModelInferRequest SomeRequest(bool raw) {
  inference::ModelInferRequest request;
  request.set_model_name("mnist");
  auto* const image = request.add_inputs();
  image->set_name("image");
  image->set_datatype(raw ? "UINT8" : "FP32");
  for (const int64_t dim : {1, 2, 2}) image->add_shape(dim);
  auto* const tokens = request.add_inputs();
  tokens->set_name("tokens");
  tokens->set_datatype(raw ? "INT32" : "INT64");
  for (const int64_t dim : {1, 3}) tokens->add_shape(dim);
  if (raw) {
    request.add_raw_input_contents("abcd");
    request.add_raw_input_contents(std::string("\1\0\0\0\2\0\0\0\3\0\0\0", 12));
  } else {
    for (const float value : {0.5f, 1.0f, -2.0f, 0.0f}) image->mutable_contents()->add_fp32_contents(value);
    for (const int64_t value : {1, 9, 0}) tokens->mutable_contents()->add_int64_contents(value);
  }
  return request;
}

const Registered infer{
    {"infer_request",
     [](std::string_view bytes) {
       inference::ModelInferRequest request;
       if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
       std::deque<std::string> made;
       const auto call = CallOf(request, made);
       return call.ok() && AllBind(*call);
     },
     [] {
       return std::vector<std::string>{SomeRequest(true).SerializeAsString(), SomeRequest(false).SerializeAsString()};
     },
     MessageFrom(0)}};

const Registered predict{{"predict_request",
                          [](std::string_view bytes) {
                            tensorflow::serving::PredictRequest request;
                            if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
                            std::deque<std::string> made;
                            const auto call = CallOf(request, made);
                            return call.ok() && AllBind(*call);
                          },
                          [] {
                            tensorflow::serving::PredictRequest request;
                            request.mutable_model_spec()->set_name("mnist");
                            request.mutable_model_spec()->set_signature_name(kSignature);
                            auto& image = (*request.mutable_inputs())["image"];
                            image.set_dtype(proto::DT_FLOAT);
                            for (const int64_t dim : {1, 2, 2}) image.mutable_tensor_shape()->add_dim()->set_size(dim);
                            image.add_float_val(0.5f);
                            auto& tokens = (*request.mutable_inputs())["tokens"];
                            tokens.set_dtype(proto::DT_INT64);
                            for (const int64_t dim : {1, 3}) tokens.mutable_tensor_shape()->add_dim()->set_size(dim);
                            for (const int64_t value : {1, 2, 3}) tokens.add_int64_val(value);
                            return std::vector<std::string>{request.SerializeAsString()};
                          },
                          MessageFrom(0)}};

// The first byte is the length of the JSON, in steps of 16; 0: all of it is.
const Registered infer_body{
    {"infer_body",
     [](std::string_view bytes) {
       if (bytes.empty()) return false;
       const int length = static_cast<unsigned char>(bytes[0]) * 16;
       InferBody body;
       return ReadInferBody(bytes.substr(1), length == 0 ? "" : fmt::format("{}", length), INT64_MAX, body).ok() &&
              AllBind(body.call);
     },
     [] {
       std::string binary = R"({"inputs":[{"name":"image","datatype":"UINT8","shape":[1,2,2],)"
                            R"("parameters":{"binary_data_size":4}}]})";
       binary.resize((binary.size() + 15) / 16 * 16, ' ');
       return std::vector<std::string>{
           std::string(1, '\0') +
               R"({"id":"1","inputs":[{"name":"tokens","datatype":"INT64","shape":[1,3],"data":[1,2,3]},)"
               R"({"name":"image","datatype":"FP32","shape":[1,2,2],"data":[[[1,2],[3,4e-1]]]}],)"
               R"("outputs":[{"name":"logits","parameters":{"binary_data":true}}]})",
           std::string(1, '\0') +
               R"({"inputs":[{"name":"image","datatype":"BYTES","shape":[1],"data":[{"b64":"AAECAw=="}]}]})",
           static_cast<char>(binary.size() / 16) + binary + "abcd"};
     }}};

const Registered predict_body{
    {"predict_body",
     [](std::string_view bytes) {
       PredictBody body;
       InferenceCall call;
       return ReadPredictBody(bytes, INT64_MAX, ServedInputs(), body, call).ok() && AllBind(call);
     },
     [] {
       return std::vector<std::string>{
           R"({"instances":[{"image":[[1,2],[3,4]],"tokens":[1,2,3]},{"image":[[0,0],[0.5,1]],"tokens":[9,9,9]}]})",
           R"({"signature_name":"serving_default","inputs":{"image":[{"b64":"AAECAw=="}],"tokens":[[1,2,3]]}})"};
     }}};

}  // namespace
}  // namespace rivulet::fuzz
