// Options and helpers of the commands by which an operator controls a running coordinator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/run/security.h"
#include "federated/transport/control_api.h"

namespace rivulet {

struct OperatorOptions {
  std::string coordinator;
  SecurityOptions security;
  bool json = false;
};

// Declares --coordinator, --tls and --insecure.
void AddOperatorOptions(Command& command, OperatorOptions* options);
// Connects through the proxy in the environment, if any, at the first call. Errors as SecurityOf, ProxyFor and
// ConnectControl.
StatusOr<std::unique_ptr<ControlApi>> ConnectAsOperator(const OperatorOptions& options);

// "12 s ago"; "" for 0, which means never.
std::string AgoText(int64_t unix_ms);

}  // namespace rivulet
