{{/*
Reasons not to install. All of them need a cluster: `helm template` and `helm lint` see none.
*/}}

{{/* Fails while a Deployment that is not this release's runs TFJobs in a namespace that this release is to serve. */}}
{{- define "tf-operator.refuseOtherControllers" -}}
{{- range (lookup "apps/v1" "Deployment" "" "").items -}}
  {{- if eq (include "tf-operator.isRival" (list $ .)) "true" -}}
    {{- $hand := printf "kubectl --namespace %s scale deployment %s --replicas=0" .metadata.namespace .metadata.name -}}
    {{- printf "\n\nNot installed: the Deployment %s in namespace %s already runs TFJobs, and two controllers destroy each other's jobs.\nStop it first; running jobs go on, and this operator takes them over:\n\n    %s\n\nIf it does not run TFJobs, say so: --set conflictCheck=false\n" .metadata.name .metadata.namespace $hand | fail -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes the root context and a Deployment. */}}
{{- define "tf-operator.isRival" -}}
{{- $root := index . 0 -}}
{{- $other := index . 1 -}}
{{- $notes := $other.metadata.annotations | default dict -}}
{{- $isOurs := and (eq (get $notes "meta.helm.sh/release-name") $root.Release.Name) (eq (get $notes "meta.helm.sh/release-namespace") $root.Release.Namespace) -}}
{{- if and (not $isOurs) (ne (int $other.spec.replicas) 0) -}}
  {{- range $other.spec.template.spec.containers -}}
    {{- $words := concat (.command | default list) (.args | default list) -}}
    {{- $image := regexMatch "(^|/)(training-operator|tf-operator|tf_operator)([:@]|$)" .image -}}
    {{- $name := regexMatch "^(training-operator|tf-job-operator|tf-operator)$" $other.metadata.name -}}
    {{- if and (or $image $name) (include "tf-operator.runsTFJobs" $words) (include "tf-operator.servesSame" (list $root $words)) -}}
      {{- "true" -}}
      {{- break -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* Kubeflow's operator runs all kinds, unless --enable-scheme says which. */}}
{{- define "tf-operator.runsTFJobs" -}}
{{- $line := join " " . | lower -}}
{{- if or (not (contains "enable-scheme" $line)) (regexMatch "enable-scheme[= ]tfjob" $line) -}}
yes
{{- end -}}
{{- end -}}

{{/* Without --namespace it serves all of them. */}}
{{- define "tf-operator.servesSame" -}}
{{- $served := (index . 0).Values.watch.namespaces -}}
{{- $theirs := list -}}
{{- range regexFindAll "--?namespace[= ][a-z0-9,-]+" (join " " (index . 1)) -1 -}}
  {{- $theirs = concat $theirs (regexReplaceAll "^--?namespace[= ]" . "" | splitList ",") -}}
{{- end -}}
{{- if or (not $served) (not $theirs) -}}
yes
{{- else -}}
  {{- range $theirs -}}{{- if has . $served -}}yes{{- end -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails when the CRD is there and not this release's, unless it is to be taken over. */}}
{{- define "tf-operator.refuseForeignDefinition" -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "tfjobs.kubeflow.org" -}}
  {{- $notes := .metadata.annotations | default dict -}}
  {{- $release := get $notes "meta.helm.sh/release-name" -}}
  {{- $namespace := get $notes "meta.helm.sh/release-namespace" -}}
  {{- if not (and (eq $release $.Release.Name) (eq $namespace $.Release.Namespace)) -}}
    {{- $owner := ternary (printf "the Helm release %s in namespace %s" $release $namespace) "somebody who did not use Helm" (ne $release "") -}}
    {{- /* Helm 4 applies on the server, where fields belong to whoever has written them. */ -}}
    {{- $flags := ternary "--take-ownership --force-conflicts" "--take-ownership" (semverCompare ">=4.0.0-0" $.Capabilities.HelmVersion.Version) -}}
    {{- printf "\n\nNot installed: the CRD tfjobs.kubeflow.org is there already and belongs to %s.\nTo have this release own and upgrade it (no TFJob is touched):\n\n    helm ... %s --set crds.takeOver=true\n\nTo leave it as it is: --set crds.enabled=false\n" $owner $flags | fail -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* Values that are right one by one, and wrong together. */}}
{{- define "tf-operator.refuseContradictions" -}}
{{- if and (not .Values.leaderElection.enabled) (gt (int .Values.replicaCount) 1) -}}
{{- fail "replicaCount must be 1 when leaderElection.enabled is false: two operators would destroy each other's jobs" -}}
{{- end -}}
{{- $full := include "tf-operator.fullname" . -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" $full) -}}
{{- fail (printf "a Service cannot be called %s: set fullnameOverride to a name of small letters, digits and -, the first a letter" $full) -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service) -}}
{{- fail "metrics.serviceMonitor needs metrics.service" -}}
{{- end -}}
{{- range $part := list "serviceMonitor" "podMonitor" "prometheusRule" "dashboards" -}}
{{- if and (get $.Values.metrics $part).enabled (not $.Values.metrics.enabled) -}}
{{- fail (printf "metrics.%s.enabled needs metrics.enabled" $part) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled -}}
{{- fail "metrics.podMonitor and metrics.serviceMonitor cannot both be enabled: everything would be counted twice, and the alert TFOperatorTwoLeaders would fire" -}}
{{- end -}}
{{- with .Values.metrics -}}
{{- if and .secure.enabled .podMonitor.enabled (not .secure.tokenSecret) -}}
{{- fail "metrics.podMonitor needs metrics.secure.tokenSecret when metrics.secure.enabled is true: a PodMonitor cannot use the token of Prometheus' own pod; a ServiceMonitor can" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.config.configmap .Values.config.inline -}}
{{- fail "config.configmap and config.inline are two places for one configuration: choose one" -}}
{{- end -}}
{{- if eq (int .Values.metrics.port) (int .Values.health.port) -}}
{{- fail "metrics.port and health.port must differ" -}}
{{- end -}}
{{- $test := .Values.test.namespace -}}
{{- if and $test .Values.watch.namespaces (not (has $test .Values.watch.namespaces)) -}}
{{- fail (printf "test.namespace %s is none of watch.namespaces" $test) -}}
{{- end -}}
{{- end -}}

{{/* Values for more of something, with one that the chart sets itself: which of the two holds would be chance. */}}
{{- define "tf-operator.refuseSetTwice" -}}
{{- $labels := include "tf-operator.labels" (dict "Values" (omit .Values "commonLabels") "Chart" .Chart "Release" .Release) | fromYaml | keys -}}
{{- $flags := list "namespace" "controller-config-file" "v1alpha1-exit-codes" "gang-scheduler-name" "gang-schedulers-by-job" "metrics-secure" "metrics-cert-path" "conversion-webhook-bind-address" "conversion-webhook-secret" "conversion-webhook-host" "conversion-webhook-cert-path" "conversion-webhook-versions" -}}
{{- range include "tf-operator.arguments" . | fromYamlArray -}}
{{- $flags = append $flags (include "tf-operator.flag" .) -}}
{{- end -}}
{{- $given := list -}}
{{- range .Values.extraArgs -}}
{{- $given = append $given (include "tf-operator.flag" .) -}}
{{- end -}}
{{- $named := dict
  "commonLabels" (list (keys .Values.commonLabels) $labels)
  "podLabels" (list (keys .Values.podLabels) $labels)
  "deploymentAnnotations" (list (keys .Values.deploymentAnnotations) (list "kube-score/ignore" "checkov.io/skip1"))
  "extraArgs" (list $given $flags)
-}}
{{- $own := dict "extraEnv" (list "MY_POD_NAME" "MY_POD_NAMESPACE" "CUSTOM_CLUSTER_DOMAIN") "extraContainers" (list "operator") "extraInitContainers" (list "operator") "extraVolumes" (list "metrics-certificate" "webhook-certificate") -}}
{{- range $value, $taken := $own -}}
{{- $names := list -}}
{{- range get $.Values $value -}}{{- $names = append $names .name -}}{{- end -}}
{{- $_ := set $named $value (list $names $taken) -}}
{{- end -}}
{{- range $value, $lists := $named -}}
{{- range first $lists -}}
{{- if has . (last $lists) -}}
{{- fail (printf "%s: %s is set by the chart itself" $value .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name in an argument: log-level in --log-level=debug. */}}
{{- define "tf-operator.flag" -}}
{{- regexReplaceAll "^--?([^=]*).*$" . "${1}" -}}
{{- end -}}
