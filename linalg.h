// Linear algebra on a CPU, by LAPACK: linalg::solve, inv, det, slogdet, lstsq, cholesky, qr, svd,
// eigh.
//
//     const Tensor x = linalg::solve(a, b);
//     const auto [u, s, vh] = linalg::svd(a);
//
// LAPACK is OpenBLAS's, so this is a library of its own (//:linalg, ringrad::linalg): a program
// without it neither links nor starts OpenBLAS.

#pragma once

#include "ringrad/autograd/linalg/factor.h"
#include "ringrad/autograd/linalg/solve.h"
