#include "federated/transport/control_messages.h"

namespace rivulet {

void ToMessage(const RunState& run, rpc::RunStateProto* message) {
  message->set_run_id(run.run_id);
  message->set_name(run.name);
  message->set_state(run.state);
  message->set_paused(run.paused);
  message->set_stopping(run.stopping);
  message->set_awaits(run.awaits);
  message->set_round(run.round);
  message->set_rounds(run.rounds);
  message->set_attempt(run.attempt);
  message->set_selected(run.selected);
  message->set_folded(run.folded);
  message->set_clients(run.clients);
}

RunState FromMessage(const rpc::RunStateProto& message) {
  return {message.run_id(),   message.name(),     message.state(),  message.paused(),
          message.stopping(), message.awaits(),   message.round(),  message.rounds(),
          message.attempt(),  message.selected(), message.folded(), message.clients()};
}

void ToMessage(const ClientState& client, rpc::ClientStateProto* message) {
  message->set_client_id(client.client_id);
  message->set_state(client.state);
  message->set_detail(client.detail);
  message->set_via(client.via);
  message->set_run_id(client.run_id);
  message->set_round(client.round);
  message->set_task(client.task);
  message->set_doing(client.doing);
  message->set_since_unix_ms(client.since_unix_ms);
  message->set_last_seen_unix_ms(client.last_seen_unix_ms);
  message->set_error(client.error);
  message->set_error_unix_ms(client.error_unix_ms);
  message->set_serial(client.serial);
  message->set_valid_until_unix_ms(client.valid_until_unix_ms);
  message->set_version(client.version);
}

ClientState FromMessage(const rpc::ClientStateProto& message) {
  return {message.client_id(),     message.state(),
          message.detail(),        message.via(),
          message.run_id(),        message.round(),
          message.task(),          message.doing(),
          message.since_unix_ms(), message.last_seen_unix_ms(),
          message.error(),         message.error_unix_ms(),
          message.serial(),        message.valid_until_unix_ms(),
          message.version()};
}

void ToMessage(const AuditEntry& entry, rpc::AuditEntryProto* message) {
  message->set_at(entry.at);
  message->set_operator_id(entry.operator_id);
  message->set_serial(entry.serial);
  message->set_action(entry.action);
  message->set_run_id(entry.run_id);
  message->set_client_id(entry.client_id);
  message->set_detail(entry.detail);
}

AuditEntry FromMessage(const rpc::AuditEntryProto& message) {
  return {message.at(),     message.operator_id(), message.serial(), message.action(),
          message.run_id(), message.client_id(),   message.detail()};
}

}  // namespace rivulet
