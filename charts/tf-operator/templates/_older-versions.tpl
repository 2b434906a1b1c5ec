{{- /* Generated from hack/crd/older-versions.yaml: edit it and run hack/generate crd. */ -}}
{{- define "tf-operator.olderVersions" }}
{{- if has "v1beta2" .Values.apis.kubeflow.oldVersions }}
- name: v1beta2
  served: true
  storage: false
  subresources:
    status: {}
    scale:
      specReplicasPath: .spec.tfReplicaSpecs.Worker.replicas
      statusReplicasPath: .status.replicaStatuses.Worker.active
      labelSelectorPath: .status.replicaStatuses.Worker.selector
  schema:
    openAPIV3Schema:
      description: A TFJob is a TensorFlow training job, in an older version of its API. New jobs should use v1.
      type: object
      required:
      - spec
      properties:
        apiVersion:
          type: string
        kind:
          type: string
        metadata:
          type: object
        status:
          description: The state of the job.
          type: object
          nullable: true
          x-kubernetes-preserve-unknown-fields: true
        spec:
          description: What to run.
          type: object
          required:
          - tfReplicaSpecs
          properties:
            cleanPodPolicy:
              description: What is deleted when the job has finished; Running when nothing is said.
              type: string
              enum:
              - All
              - Running
              - None
            ttlSecondsAfterFinished:
              description: The seconds after which a finished job is deleted.
              type: integer
              format: int32
              minimum: 0
            activeDeadlineSeconds:
              description: The seconds after which a job that still runs has failed.
              type: integer
              format: int64
              minimum: 0
            backoffLimit:
              description: How many restarts of replicas there may be before the job has failed.
              type: integer
              format: int32
              minimum: 0
            tfReplicaSpecs:
              description: The replicas, by type, in any letter case; Chief (or Master), Worker, PS, Evaluator.
              type: object
              minProperties: 1
              maxProperties: 5
              x-kubernetes-validations:
              - rule: self.all(type, type.lowerAscii() in ['chief', 'master', 'worker', 'ps', 'evaluator'])
                message: knows only the types Chief, Master, Worker, PS and Evaluator, in any letter case
              - rule: self.all(type, self.exists_one(other, other.lowerAscii() == type.lowerAscii()))
                message: has the same type twice, in different letter case
              - rule: '!(self.exists(type, type.lowerAscii() == ''chief'') && self.exists(type, type.lowerAscii() == ''master''))'
                message: cannot have both a Chief and a Master, which are two names for the same
              - rule: self.all(type, !(type.lowerAscii() in ['chief', 'master', 'evaluator']) || self[type].replicas <= 1)
                message: can have at most 1 replica of the type Chief, Master or Evaluator
              - rule: self.all(type, self[type].template.spec.containers.exists(container, container.name == 'tensorflow'))
                message: 'needs a container named tensorflow in each template: it is the one that trains'
              - rule: self.all(type, self[type].template.spec.containers.all(c, has(c.image) && c.image != ''))
                message: needs an image for each container
              additionalProperties:
                description: The replicas of one type.
                type: object
                required:
                - template
                properties:
                  replicas:
                    description: How many.
                    type: integer
                    format: int32
                    default: 1
                    minimum: 0
                    maximum: 10000
                  restartPolicy:
                    description: When a failed replica is restarted; Never when nothing is said.
                    type: string
                    enum:
                    - Always
                    - OnFailure
                    - Never
                    - ExitCode
                  template:
                    description: The pod, as in a Deployment.
                    type: object
                    required:
                    - spec
                    x-kubernetes-preserve-unknown-fields: true
                    properties:
                      spec:
                        type: object
                        required:
                        - containers
                        x-kubernetes-preserve-unknown-fields: true
                        properties:
                          containers:
                            type: array
                            maxItems: 1000
                            items:
                              type: object
                              required:
                              - name
                              x-kubernetes-preserve-unknown-fields: true
                              properties:
                                name:
                                  type: string
                                  maxLength: 63
                                image:
                                  type: string
{{- end }}
{{- if has "v1beta1" .Values.apis.kubeflow.oldVersions }}
- name: v1beta1
  served: true
  storage: false
  subresources:
    status: {}
    scale:
      specReplicasPath: .spec.tfReplicaSpecs.Worker.replicas
      statusReplicasPath: .status.replicaStatuses.Worker.active
      labelSelectorPath: .status.replicaStatuses.Worker.selector
  schema:
    openAPIV3Schema:
      description: A TFJob is a TensorFlow training job, in an older version of its API. New jobs should use v1.
      type: object
      required:
      - spec
      properties:
        apiVersion:
          type: string
        kind:
          type: string
        metadata:
          type: object
        status:
          description: The state of the job.
          type: object
          nullable: true
          x-kubernetes-preserve-unknown-fields: true
        spec:
          description: What to run.
          type: object
          required:
          - tfReplicaSpecs
          properties:
            cleanPodPolicy:
              description: What is deleted when the job has finished; Running when nothing is said.
              type: string
              enum:
              - All
              - Running
              - None
            ttlSecondsAfterFinished:
              description: The seconds after which a finished job is deleted.
              type: integer
              format: int32
              minimum: 0
            tfReplicaSpecs:
              description: The replicas, by type, in any letter case; Chief (or Master), Worker, PS, Evaluator.
              type: object
              minProperties: 1
              maxProperties: 5
              x-kubernetes-validations:
              - rule: self.all(type, type.lowerAscii() in ['chief', 'master', 'worker', 'ps', 'evaluator'])
                message: knows only the types Chief, Master, Worker, PS and Evaluator, in any letter case
              - rule: self.all(type, self.exists_one(other, other.lowerAscii() == type.lowerAscii()))
                message: has the same type twice, in different letter case
              - rule: '!(self.exists(type, type.lowerAscii() == ''chief'') && self.exists(type, type.lowerAscii() == ''master''))'
                message: cannot have both a Chief and a Master, which are two names for the same
              - rule: self.all(type, !(type.lowerAscii() in ['chief', 'master', 'evaluator']) || self[type].replicas <= 1)
                message: can have at most 1 replica of the type Chief, Master or Evaluator
              - rule: self.all(type, self[type].template.spec.containers.exists(container, container.name == 'tensorflow'))
                message: 'needs a container named tensorflow in each template: it is the one that trains'
              - rule: self.all(type, self[type].template.spec.containers.all(c, has(c.image) && c.image != ''))
                message: needs an image for each container
              additionalProperties:
                description: The replicas of one type.
                type: object
                required:
                - template
                properties:
                  replicas:
                    description: How many.
                    type: integer
                    format: int32
                    default: 1
                    minimum: 0
                    maximum: 10000
                  restartPolicy:
                    description: When a failed replica is restarted; Never when nothing is said.
                    type: string
                    enum:
                    - Always
                    - OnFailure
                    - Never
                    - ExitCode
                  template:
                    description: The pod, as in a Deployment.
                    type: object
                    required:
                    - spec
                    x-kubernetes-preserve-unknown-fields: true
                    properties:
                      spec:
                        type: object
                        required:
                        - containers
                        x-kubernetes-preserve-unknown-fields: true
                        properties:
                          containers:
                            type: array
                            maxItems: 1000
                            items:
                              type: object
                              required:
                              - name
                              x-kubernetes-preserve-unknown-fields: true
                              properties:
                                name:
                                  type: string
                                  maxLength: 63
                                image:
                                  type: string
{{- end }}
{{- if has "v1alpha2" .Values.apis.kubeflow.oldVersions }}
- name: v1alpha2
  served: true
  storage: false
  subresources:
    status: {}
  schema:
    openAPIV3Schema:
      description: A TFJob is a TensorFlow training job, in an older version of its API. New jobs should use v1.
      type: object
      required:
      - spec
      properties:
        apiVersion:
          type: string
        kind:
          type: string
        metadata:
          type: object
        status:
          description: The state of the job.
          type: object
          nullable: true
          x-kubernetes-preserve-unknown-fields: true
        spec:
          description: What to run.
          type: object
          required:
          - tfReplicaSpecs
          properties:
            cleanPodPolicy:
              description: What is deleted when the job has finished; Running when nothing is said.
              type: string
              enum:
              - All
              - Running
              - None
            ttlSecondsAfterFinished:
              description: The seconds after which a finished job is deleted.
              type: integer
              format: int32
              minimum: 0
            tfReplicaSpecs:
              description: The replicas, by type, in any letter case; Chief (or Master), Worker, PS, Evaluator.
              type: object
              minProperties: 1
              maxProperties: 5
              x-kubernetes-validations:
              - rule: self.all(type, type.lowerAscii() in ['chief', 'master', 'worker', 'ps', 'evaluator'])
                message: knows only the types Chief, Master, Worker, PS and Evaluator, in any letter case
              - rule: self.all(type, self.exists_one(other, other.lowerAscii() == type.lowerAscii()))
                message: has the same type twice, in different letter case
              - rule: '!(self.exists(type, type.lowerAscii() == ''chief'') && self.exists(type, type.lowerAscii() == ''master''))'
                message: cannot have both a Chief and a Master, which are two names for the same
              - rule: self.all(type, !(type.lowerAscii() in ['chief', 'master', 'evaluator']) || self[type].replicas <= 1)
                message: can have at most 1 replica of the type Chief, Master or Evaluator
              - rule: self.all(type, self[type].template.spec.containers.exists(container, container.name == 'tensorflow'))
                message: 'needs a container named tensorflow in each template: it is the one that trains'
              - rule: self.all(type, self[type].template.spec.containers.all(c, has(c.image) && c.image != ''))
                message: needs an image for each container
              additionalProperties:
                description: The replicas of one type.
                type: object
                required:
                - template
                properties:
                  replicas:
                    description: How many.
                    type: integer
                    format: int32
                    default: 1
                    minimum: 0
                    maximum: 10000
                  restartPolicy:
                    description: When a failed replica is restarted; Never when nothing is said.
                    type: string
                    enum:
                    - Always
                    - OnFailure
                    - Never
                    - ExitCode
                  template:
                    description: The pod, as in a Deployment.
                    type: object
                    required:
                    - spec
                    x-kubernetes-preserve-unknown-fields: true
                    properties:
                      spec:
                        type: object
                        required:
                        - containers
                        x-kubernetes-preserve-unknown-fields: true
                        properties:
                          containers:
                            type: array
                            maxItems: 1000
                            items:
                              type: object
                              required:
                              - name
                              x-kubernetes-preserve-unknown-fields: true
                              properties:
                                name:
                                  type: string
                                  maxLength: 63
                                image:
                                  type: string
{{- end }}
{{- end }}
