// The records of a stored run, checked against its other rows and its files.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/history/history.h"
#include "engine/base/file_system.h"
#include "engine/io/safetensors.h"
#include "federated/records/merkle_tree.h"
#include "federated/records/version_record.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {

// One record a version, 0 to `versions`, in one chain; each of the updates that rows say are in it, and in its file.
inline void ExpectWholeChain(History& history, const RunRow& run, int64_t versions) {
  ASSERT_OK_AND_ASSIGN(const std::vector<RecordRow> rows, history.Records(run.run_id));
  ASSERT_EQ(std::ssize(rows), versions + 1);
  ASSERT_OK_AND_ASSIGN(const std::vector<ModelRow> models, history.Models(run.run_id));
  ASSERT_EQ(models.size(), rows.size());
  ASSERT_OK_AND_ASSIGN(const auto configuration, history.FindBlob(run.run_id, kConfigurationBlob));
  ASSERT_TRUE(configuration);
  records::RecordChain chain;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto version = static_cast<int64_t>(i);
    ASSERT_OK_AND_ASSIGN(const records::VersionRecord record, records::ReadVersionRecord(rows[i].record));
    EXPECT_EQ(rows[i].round, version);
    EXPECT_EQ(record.version, version);
    ASSERT_OK(chain.Add(record, records::DigestOf(rows[i].record)));
    EXPECT_EQ(chain.head().Hex(), rows[i].digest);
    EXPECT_EQ(record.run, run.run_id);
    EXPECT_EQ(record.plan.Hex(), run.plan_digest);
    EXPECT_EQ(record.configuration, Sha256Of(configuration->second.bytes));
    EXPECT_EQ(record.model.Hex(), models[i].digest);

    std::map<std::string, std::optional<Digest>> folded;
    bool all = true;
    ASSERT_OK_AND_ASSIGN(const std::vector<ClientRoundRow> tasks, history.ClientRounds(run.run_id, version));
    for (const ClientRoundRow& task : tasks) {
      if (task.status != "folded" || task.kind != "train") continue;
      folded[task.task_id] = task.update_digest;
      all = all && task.update_digest;
    }
    std::vector<Digest> leaves;
    for (const auto& [task, identity] : folded) leaves.push_back(records::LeafOf(task, identity));
    EXPECT_EQ(record.updates, std::ssize(leaves));
    EXPECT_EQ(record.updates_root, records::MerkleTree(leaves).root());
    EXPECT_EQ(record.has_receipts, all && !leaves.empty());

    if (models[i].path.empty()) continue;
    const std::string path = JoinPath(FolderOf(history.real_path()), models[i].path);
    ASSERT_OK_AND_ASSIGN(const std::string bytes, FileSystem::Default().ReadAll(path));
    EXPECT_EQ(std::ssize(bytes), models[i].bytes);
    ASSERT_OK_AND_ASSIGN(const SafetensorsContent file, ParseSafetensors(bytes));
    EXPECT_EQ(file.metadata.at(records::kRecordKey), rows[i].digest);
  }
}

}  // namespace rivulet
