// What only rank 0 does, while all others wait to hear how it went.

#pragma once

#include <exception>
#include <string>

#include "parallel/comm/communicator.h"
#include "parallel/comm/same_text.h"

namespace ringrad {

/// Calls body() on rank 0. What it throws there all ranks throw, as an ErrorType whose message begins with "rank 0: ".
template <class ErrorType, class Body>
void on_root(Communicator& comm, Where where, Body body) {
  std::string error;
  if (comm.rank() == 0) try {
      body();
    } catch (const Error& caught) {
      error = caught.message();
    } catch (const std::exception& caught) {
      error = caught.what();
    }
  error = text_of_root(error, comm, where);
  if (!error.empty()) throw ErrorType("rank 0: " + error, where);
}

}  // namespace ringrad
