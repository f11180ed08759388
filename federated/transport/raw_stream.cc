#include "federated/transport/raw_stream.h"

#include <utility>

namespace rivulet {

RawStream::RawStream(grpc::GenericStub& stub, grpc::ClientContext* context, const char* method)
    : call_(stub.PrepareCall(context, method, &queue_)) {
  call_->StartCall(this);
  (void)Await();
}

bool RawStream::Write(const grpc::ByteBuffer& message) {
  if (!AwaitWrite()) return false;
  call_->Write(message, this);
  return writing_ = true;
}

bool RawStream::WriteLast(const grpc::ByteBuffer& message) {
  if (!AwaitWrite()) return false;
  call_->WriteLast(message, grpc::WriteOptions(), this);
  return Await();
}

bool RawStream::Read(grpc::ByteBuffer* message) {
  if (!AwaitWrite()) return false;
  call_->Read(message, this);
  return Await();
}

grpc::Status RawStream::Finish() {
  (void)AwaitWrite();
  grpc::Status status;
  call_->Finish(&status, this);
  (void)Await();
  return status;
}

bool RawStream::AwaitWrite() { return !std::exchange(writing_, false) || Await(); }

bool RawStream::Await() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

}  // namespace rivulet
