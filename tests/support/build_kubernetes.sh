#!/bin/sh
# Builds a kube-apiserver for tests/end_to_end/test_kubernetes.py into .venv/tools: about five
# minutes with Go, once. Debian's etcd-server is its database.
set -eu
version=31.4
tools=$PWD/.venv/tools
[ -x "$tools/kube-apiserver" ] && exit 0
command -v etcd >/dev/null || apt-get install -qq -y --no-install-recommends etcd-server

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >main.go <<'GO'
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
GO
{
    printf 'module apiserver\ngo 1.22\nrequire k8s.io/kubernetes v1.%s\n' "$version"
    # What k8s.io/kubernetes has in its own tree; it names no versions of them.
    for part in api apiextensions-apiserver apimachinery apiserver cli-runtime client-go \
        cloud-provider cluster-bootstrap code-generator component-base component-helpers \
        controller-manager cri-api cri-client csi-translation-lib dynamic-resource-allocation \
        endpointslice kms kube-aggregator kube-controller-manager kube-proxy kube-scheduler \
        kubectl kubelet metrics mount-utils pod-security-admission sample-apiserver \
        sample-cli-plugin sample-controller; do
        echo "replace k8s.io/$part => k8s.io/$part v0.$version"
    done
} >go.mod
go mod tidy
stamp=k8s.io/component-base/version
mkdir -p "$tools"
nice go build -o "$tools/kube-apiserver" -ldflags "-s -w -X $stamp.gitVersion=v1.$version \
    -X $stamp.gitMajor=1 -X $stamp.gitMinor=${version%.*}" .
