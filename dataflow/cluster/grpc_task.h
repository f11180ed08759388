// Another task of the cluster, called over gRPC.
#pragma once

#include <memory>
#include <string>

#include "dataflow/cluster/cluster_spec.h"
#include "dataflow/distributed/remote_task.h"
#include "rpc/credentials.h"

namespace rivulet {

// Connects when it is first called, and again after the task was restarted. FAILED_PRECONDITION: the credentials refuse
// its address.
StatusOr<std::shared_ptr<RemoteTask>> GrpcTask(const ClusterTask& task,
                                               std::shared_ptr<const TransportCredentials> credentials);

}  // namespace rivulet
