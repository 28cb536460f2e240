//go:build tools

// Package tools keeps both helms in go.mod. They are one module, so that they share the libraries that both are built of.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
	_ "helm.sh/helm/v4/cmd/helm"
)
