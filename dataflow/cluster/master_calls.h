// Calls of a client to its session's master as the service answers them, from message to message. No gRPC. Internal to
// this folder and its tests.
#pragma once

#include "dataflow/cluster/finish_call.h"
#include "dataflow/cluster/master.h"
#include "engine/program/cancellation.h"
#include "proto/distributed/master.pb.h"

namespace rivulet {

// `finish` as for a task's calls (worker_calls.h). All but RunStep finish before they return. Errors of Master and
// MasterSession.
void AnswerCall(Master& master, const tensorflow::CreateSessionRequest& request,
                tensorflow::CreateSessionResponse* response, const CancellationToken& cancel, const FinishCall& finish);
void AnswerCall(Master& master, const tensorflow::ExtendSessionRequest& request,
                tensorflow::ExtendSessionResponse* response, const CancellationToken& cancel, const FinishCall& finish);
void AnswerCall(Master& master, const tensorflow::PartialRunSetupRequest& request,
                tensorflow::PartialRunSetupResponse* response, const CancellationToken& cancel,
                const FinishCall& finish);
void AnswerCall(Master& master, const tensorflow::RunStepRequest& request, tensorflow::RunStepResponse* response,
                const CancellationToken& cancel, const FinishCall& finish);
void AnswerCall(Master& master, const tensorflow::CloseSessionRequest& request,
                tensorflow::CloseSessionResponse* response, const CancellationToken& cancel, const FinishCall& finish);
void AnswerCall(Master& master, const tensorflow::ListDevicesRequest& request,
                tensorflow::ListDevicesResponse* response, const CancellationToken& cancel, const FinishCall& finish);
void AnswerCall(Master& master, const tensorflow::ResetRequest& request, tensorflow::ResetResponse* response,
                const CancellationToken& cancel, const FinishCall& finish);

}  // namespace rivulet
