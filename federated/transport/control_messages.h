// The structs of control_api.h as messages of proto/rpc/control.proto, and back. Internal to this folder.
#pragma once

#include "federated/transport/control_api.h"
#include "proto/rpc/control.pb.h"

namespace rivulet {

void ToMessage(const RunState& run, rpc::RunStateProto* message);
RunState FromMessage(const rpc::RunStateProto& message);
void ToMessage(const ClientState& client, rpc::ClientStateProto* message);
ClientState FromMessage(const rpc::ClientStateProto& message);
void ToMessage(const AuditEntry& entry, rpc::AuditEntryProto* message);
AuditEntry FromMessage(const rpc::AuditEntryProto& message);

}  // namespace rivulet
