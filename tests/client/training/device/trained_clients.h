// Clients trained on a device and on the host, with both results for comparison.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/training/trainer.h"
#include "federated/plan/example_source.h"
#include "federated/random/streams.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

// A client's data and its result.
struct Client {
  Task task;
  std::string name;
  std::unique_ptr<DatasetExamples> examples;
  std::string state;
};
struct Came {
  Status status;
  std::map<std::string, std::vector<float>> parts;
  Scalars declared;
  std::string state;
  int64_t steps = 0;
  double train_loss = 0;
};

inline std::vector<Client> ClientsOf(const Plan& plan, const std::vector<int>& sizes,
                                     TaskKind kind = TaskKind::kTrain) {
  auto decoder = ExampleDecoder::Create(plan.features());
  EXPECT_OK(decoder);
  std::vector<Client> clients;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Client& client = clients.emplace_back();
    client.name = fmt::format("client-{:05}", i);
    client.task.id = fmt::format("run-r3-a1-{}-0", client.name);
    client.task.kind = kind;
    client.task.base_version = 2;
    client.task.stream_key = ClientKey(42, client.name);
    client.examples = std::make_unique<DatasetExamples>(
        std::make_shared<MemoryDataset>(DigitRecords(sizes[i], static_cast<uint32_t>(i))), std::nullopt, *decoder);
  }
  return clients;
}

// Trains `group` clients at a time.
inline std::vector<Came> TrainAll(Trainer& trainer, const std::vector<Client>& clients, const Model& base, size_t group,
                                  std::span<const AlignedBuffer* const> broadcasts = {}) {
  std::vector<Came> all;
  for (size_t first = 0; first < clients.size(); first += group) {
    std::vector<LaneTask> lanes;
    for (size_t i = first; i < std::min(first + group, clients.size()); ++i) {
      const Client& client = clients[i];
      lanes.push_back({&client.task, client.name, &base, client.examples.get(), client.state, broadcasts});
    }
    StatusOr<std::vector<LocalResult>> results = trainer.Train(lanes);
    EXPECT_OK(results);
    if (!results.ok()) return all;
    for (const LocalResult& result : *results) {
      Came& came = all.emplace_back();
      came.status = result.status;
      came.declared = result.declared;
      came.state = result.state;
      came.steps = result.steps.value_or(0);
      came.train_loss = result.train_loss.value_or(0);
      for (const PartView& part : result.parts) {
        std::vector<float>& values = came.parts[std::string(part.name)];
        for (const FloatRun& run : part.runs) {
          for (int64_t i = 0; i < run.count; ++i) values.push_back(ValueOf(run, i));
        }
      }
    }
  }
  return all;
}

inline void ExpectNear(const std::vector<Came>& device, const std::vector<Came>& host, float tolerance) {
  ASSERT_EQ(device.size(), host.size());
  for (size_t i = 0; i < device.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_OK(host[i].status);
    ASSERT_OK(device[i].status);
    EXPECT_EQ(device[i].steps, host[i].steps);
    ASSERT_EQ(device[i].parts.size(), host[i].parts.size());
    for (const auto& [name, values] : host[i].parts) {
      const std::vector<float>& ours = device[i].parts.at(name);
      ASSERT_EQ(ours.size(), values.size());
      for (size_t k = 0; k < values.size(); ++k) ASSERT_NEAR(ours[k], values[k], tolerance) << name << " " << k;
    }
    ASSERT_EQ(device[i].declared.size(), host[i].declared.size());
    for (const auto& [name, value] : host[i].declared) {
      EXPECT_NEAR(device[i].declared.at(name), value, 1e-4 * (1 + std::abs(value))) << name;
    }
    EXPECT_EQ(device[i].state.size(), host[i].state.size());
  }
}

inline void ExpectSameBits(const std::vector<Came>& a, const std::vector<Came>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(a[i].status, b[i].status);
    EXPECT_EQ(a[i].parts, b[i].parts);
    EXPECT_EQ(a[i].declared, b[i].declared);
    EXPECT_EQ(a[i].state, b[i].state);
  }
}

}  // namespace rivulet::testing
