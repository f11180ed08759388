// Blobs of a run's records (federated/records/receipt.h) that clients fetch, by forms beside those that tasks name.
#pragma once

#include "engine/base/sha256.h"
#include "federated/tasks/task.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// The newest record that is durable, as a Head; the digest is of the record that the caller was shown before, or zeros.
// FAILED_PRECONDITION: the run has no such record. NOT_FOUND, UNIMPLEMENTED, INVALID_ARGUMENT: who serves has none at
// all, as an aggregator or an earlier program.
inline constexpr BlobId::Form kHeadForm{4};
// Where a task's update is in the version that holds it, as a Receipt; the digest is of the task's name. NOT_FOUND: not
// in one of the newest versions.
inline constexpr BlobId::Form kReceiptForm{5};

inline BlobId HeadBlobAfter(const Digest& known) { return {kHeadForm, known}; }
inline BlobId ReceiptBlobOf(const TaskId& task) { return {kReceiptForm, Sha256Of(task)}; }

}  // namespace rivulet
