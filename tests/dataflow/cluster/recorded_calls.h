// Calls between TensorFlow's sessions and tasks, as record_calls.py recorded them.
#pragma once

#include <zlib.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "dataflow/cluster/wire.h"
#include "dataflow/placement/rendezvous.h"
#include "engine/base/file_system.h"
#include "engine/tensor/text.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

struct RecordedCall {
  std::string graph, callee;  // "master", "0" or "1"
  std::string method;         // "RunStep"
  std::string request;
  int code = 0;
  std::string response, error;
};

// Returns the calls in the order of their starts.
inline std::vector<RecordedCall> ReadRecordedCalls(const std::string& name) {
  const auto file = FileSystem::Default().ReadAll(std::string(RIVULET_CLUSTER_TESTS) + "/recordings/" + name);
  EXPECT_OK(file);
  uint64_t size = 0;
  std::memcpy(&size, file->data(), sizeof size);
  std::string unpacked(size, '\0');
  uLongf length = size;
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(unpacked.data()), &length,
                       reinterpret_cast<const Bytef*>(file->data()) + sizeof size, file->size() - sizeof size),
            Z_OK);
  size_t at = 0;
  const auto next = [&] {
    uint32_t bytes = 0;
    std::memcpy(&bytes, unpacked.data() + at, sizeof bytes);
    at += sizeof bytes + bytes;
    return unpacked.substr(at - bytes, bytes);
  };
  std::vector<RecordedCall> calls;
  while (at < unpacked.size()) {
    RecordedCall call;
    call.graph = next();
    call.callee = next();
    call.method = next();
    call.method.erase(0, call.method.rfind('/') + 1);
    call.request = next();
    call.code = std::stoi(next());
    call.response = next();
    call.error = next();
    calls.push_back(std::move(call));
  }
  return calls;
}

template <typename Message>
Message Parsed(const std::string& bytes) {
  Message message;
  EXPECT_TRUE(message.ParseFromString(bytes));
  return message;
}

// Returns "" if they are equal: integers and texts to the bit, floats to 1e-6.
inline std::string Difference(const proto::TensorProto& got, const proto::TensorProto& expected) {
  size_t repeated = kMostRepeatedBytes;
  const StatusOr<Tensor> a = TensorFrom(got, repeated), b = TensorFrom(expected, repeated);
  if (!a.ok() || !b.ok()) return fmt::format("no tensors: {}, {}", a.status().ToString(), b.status().ToString());
  if (a->dtype() != b->dtype() || a->shape() != b->shape())
    return fmt::format("{}{} and not {}{}", Name(a->dtype()), a->shape().ToString(), Name(b->dtype()),
                       b->shape().ToString());
  const auto differ = [&]<typename T>(T) -> std::string {
    for (size_t i = 0; i < a->flat<T>().size(); ++i) {
      const T x = a->flat<T>()[i], y = b->flat<T>()[i];
      if (!(std::abs(x - y) <= T(1e-6) + T(1e-6) * std::abs(y)))
        return fmt::format("element {}: {} and not {}", i, x, y);
    }
    return "";
  };
  if (a->dtype() == DType::kFloat32) return differ(float());
  if (a->dtype() == DType::kFloat64) return differ(double());
  if (a->dtype() == DType::kString) return TextsOf(*a) == TextsOf(*b) ? "" : "other texts";
  return a->bytes() == b->bytes() && std::memcmp(a->data(), b->data(), a->bytes()) == 0 ? "" : "other bits";
}

// The same for tensor names, ignoring the devices' incarnations.
inline std::string TensorNameOf(const std::string& name) {
  const auto key = RendezvousKey::Parse(name);
  return key.ok() ? key->tensor_name : name;
}
template <typename Tensors>
std::string Differences(const Tensors& got, const Tensors& expected) {
  std::map<std::string, const proto::TensorProto*> by_name;
  for (const auto& named : got) by_name[TensorNameOf(named.name())] = &named.tensor();
  if (got.size() != expected.size()) return fmt::format("{} tensors and not {}", got.size(), expected.size());
  for (const auto& named : expected) {
    const auto found = by_name.find(TensorNameOf(named.name()));
    if (found == by_name.end()) return fmt::format("no tensor '{}'", named.name());
    const std::string difference = Difference(*found->second, named.tensor());
    if (!difference.empty()) return fmt::format("'{}': {}", named.name(), difference);
  }
  return "";
}

}  // namespace rivulet::testing
